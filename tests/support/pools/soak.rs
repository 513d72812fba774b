//! A CI system that gives work to pools for a while, leaders that are killed meanwhile, and what must hold all the time.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, RwLock, watch},
    task::JoinSet,
};

use super::{
    Dice,
    controller::Controller,
    objects::{change, delete, job, make, pods, pool, template},
    sight::{Known, Sight},
    tally, until,
};

/// Each job is a new agent's, which ends with it: as many agents are made as jobs.
const ONCE: &str = "once";
/// Agents take one job after another, and are taken away when there are few.
const WARM: &str = "warm";
/// Jobs are pods and push placeholders aside.
const ROOM: &str = "room";
/// The pools, each with its ceiling.
const POOLS: [(&str, usize); 3] = [(ONCE, 15), (WARM, 12), (ROOM, 20)];

/// How long, and how rough.
pub(crate) struct Plan {
    /// How long new jobs come; then the rest is waited for.
    pub(crate) length: Duration,
    /// The least and the most milliseconds from one leader's start of work to its end by kill -9.
    pub(crate) kill_after: [u64; 2],
    /// How often everything is held still and counted.
    pub(crate) count_every: Duration,
    /// The nodes' labels: one of much room, one of eight CPUs.
    pub(crate) nodes: [String; 2],
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// By pool: jobs, and pods that the pool made.
    pub(crate) jobs: BTreeMap<&'static str, usize>,
    pub(crate) made: BTreeMap<&'static str, usize>,
    /// The most pods that a pool had at a time.
    pub(crate) most: BTreeMap<&'static str, usize>,
    /// From each kill to the next leader.
    pub(crate) followed: Vec<Duration>,
    /// How long it took, while all was held still, until every controller told the counts that the API server has.
    pub(crate) counted: Vec<Duration>,
    pub(crate) busy: usize,
    pub(crate) events: u64,
    /// Writes of a status.
    pub(crate) status_writes: u64,
    pub(crate) took: Duration,
    /// Seconds since the start, process, its resident KiB.
    pub(crate) memory: Vec<(u64, u32, u64)>,
    /// What must not have happened.
    pub(crate) violations: Vec<String>,
}

struct Soak {
    pods: Api<Pod>,
    namespace: String,
    kubeconfig: String,
    sight: Sight,
    nodes: [String; 2],
    controllers: Mutex<Vec<Controller>>,
    /// Whoever changes something holds it for reading; who counts, for writing.
    still: RwLock<()>,
    ending: watch::Receiver<bool>,
    outcome: Mutex<Outcome>,
}

/// Runs it in an empty namespace with the nodes of the plan, with three controllers.
pub(crate) async fn soak(client: &Client, kubeconfig: &str, namespace: &str, plan: Plan) -> Outcome {
    let began = Instant::now();
    let sight = Sight::start(client, namespace);
    let writes = tally::status_writes(client, namespace);
    let (end, ending) = watch::channel(false);
    let soak = Arc::new(Soak {
        pods: pods(client, namespace),
        namespace: namespace.to_owned(),
        kubeconfig: kubeconfig.to_owned(),
        sight: sight.clone(),
        nodes: plan.nodes.clone(),
        controllers: Mutex::default(),
        still: RwLock::default(),
        ending,
        outcome: Mutex::default(),
    });
    for _ in 0..3 {
        let controller = Controller::start(kubeconfig, namespace).await;
        soak.controllers.lock().await.push(controller);
    }
    soak.make_pools(client).await;
    let mut tasks = JoinSet::new();
    tasks.spawn(soak.clone().employ(ONCE, Dice::new(plan.seed)));
    tasks.spawn(soak.clone().employ(WARM, Dice::new(plan.seed + 2)));
    tasks.spawn(soak.clone().fill(Dice::new(plan.seed + 4)));
    let mut others = JoinSet::new();
    others.spawn(soak.clone().kill(plan.kill_after, Dice::new(plan.seed + 6)));
    others.spawn(soak.clone().count(plan.count_every));
    others.spawn(soak.clone().sample(began));
    tokio::time::sleep(plan.length).await;
    end.send_replace(true);
    tasks.join_all().await;
    others.join_all().await;

    // Everything is done: the pools are what they are without work.
    let what = "pools without work to be at rest";
    until(what, async || {
        let rest = sight.own(ONCE).iter().all(Known::has_ended)
            && sight.are(WARM, 3, Known::is_free)
            && sight.are(ROOM, 3, |known| known.phase == "Running");
        rest.then_some(())
    })
    .await;
    soak.count_once().await;
    let mut outcome = std::mem::take(&mut *soak.outcome.lock().await);
    for (pool, _) in POOLS {
        outcome.made.insert(pool, sight.made(pool));
        outcome.most.insert(pool, sight.most(pool));
    }
    if outcome.jobs[ONCE] != outcome.made[ONCE] {
        let (jobs, made) = (outcome.jobs[ONCE], outcome.made[ONCE]);
        outcome.violations.push(format!("{jobs} jobs of one agent each, and {made} agents were made"));
    }
    for controller in soak.controllers.lock().await.iter_mut().filter_map(|one| one.has_ended().then_some(one)) {
        outcome.violations.push(format!("a controller ended: {}", controller.log()));
    }
    outcome.violations.extend(sight.violations());
    (outcome.busy, outcome.events) = (sight.busy_seen(), sight.events());
    (outcome.status_writes, outcome.took) = (writes.count(), began.elapsed());
    outcome
}

impl Soak {
    fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Waits so long, or until the end; whether it was the former.
    async fn wait(&self, time: Duration) -> bool {
        let mut ending = self.ending.clone();
        let end = ending.wait_for(|ending| *ending);
        tokio::time::timeout(time, end).await.is_err()
    }

    async fn make_pools(&self, client: &Client) {
        let [large, small] = &self.nodes;
        let specs = [
            // An agent that was made for a job must still be there when the job is given to it.
            json!({"mode": "Agents", "template": template(large), "scaleDown": {"delaySeconds": 60}}),
            json!({"mode": "Agents", "template": template(large), "minIdle": 3}),
            json!({"mode": "Headroom", "template": template(small), "minIdle": 3}),
        ];
        for ((name, max), mut spec) in POOLS.into_iter().zip(specs) {
            spec["max"] = json!(max);
            self.sight.at_most(name, max);
            tally::apply(client, &pool(&self.namespace, name, &spec)).await;
        }
    }

    async fn job_was_made(&self, pool: &'static str) {
        *self.outcome.lock().await.jobs.entry(pool).or_default() += 1;
    }

    /// Makes jobs that wait, gives each to an agent that is free, and ends it after a while.
    async fn employ(self: Arc<Self>, pool: &'static str, mut dice: Dice) {
        let (mut queue, mut working) = (VecDeque::new(), Vec::new());
        // A job that was taken out of the queue and has no agent yet, and since when.
        let mut in_hand: Option<Instant> = None;
        let mut number = 0;
        let mut next = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let _moving = self.still.read().await;
            let open = queue.len() + working.len() + usize::from(in_hand.is_some());
            let lost = in_hand.is_some_and(|since| since.elapsed() > Duration::from_secs(60));
            if lost || (!self.is_ending() && Instant::now() >= next && open < 10) {
                number += 1;
                let name = format!("{pool}-job-{number}");
                make(&self.pods, &job(pool, &name, "none")).await.unwrap();
                self.job_was_made(pool).await;
                queue.push_back(name);
                next = Instant::now() + dice.millis(50, 1500);
                if lost {
                    in_hand = None;
                }
            }
            for agent in self.sight.own(pool).into_iter().filter(Known::is_free) {
                if in_hand.is_none() {
                    let Some(job) = queue.pop_front() else { break };
                    self.sight.will_delete(&job);
                    delete(&self.pods, &job).await;
                    in_hand = Some(Instant::now());
                }
                // As a real agent does: only if nothing has happened to it meanwhile.
                let mark = json!({"metadata": {"labels": {podlayer::names::POOL_BUSY: "true"}}});
                match change(&self.pods, &agent.name, Some(&agent.version), mark).await {
                    Ok(_) => {
                        working.push((agent.name, Instant::now() + dice.millis(500, 5000)));
                        in_hand = None;
                    }
                    Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                    Err(error) => panic!("an agent can't be given work: {error}"),
                }
            }
            let (done, rest): (Vec<_>, Vec<_>) = working.into_iter().partition(|(_, end)| Instant::now() >= *end);
            working = rest;
            for (agent, _) in done {
                self.end_work(pool, &agent).await;
            }
            if self.is_ending() && queue.is_empty() && working.is_empty() && in_hand.is_none() {
                return;
            }
        }
    }

    async fn end_work(&self, pool: &str, agent: &str) {
        if pool == ONCE {
            let ended = json!({"status": {"phase": "Succeeded"}});
            self.pods.patch_status(agent, &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
        } else {
            let free = json!({"metadata": {"labels": {podlayer::names::POOL_BUSY: null}}});
            change(&self.pods, agent, None, free).await.unwrap();
        }
    }

    /// Jobs that are pods themselves, on a node of eight CPUs of which three are held free.
    async fn fill(self: Arc<Self>, mut dice: Dice) {
        let mut open: Vec<(String, Option<Instant>)> = Vec::new();
        let mut number = 0;
        let mut next = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let _moving = self.still.read().await;
            if !self.is_ending() && Instant::now() >= next && open.len() < 7 {
                number += 1;
                let name = format!("{ROOM}-job-{number}");
                make(&self.pods, &job(ROOM, &name, &self.nodes[1])).await.unwrap();
                self.job_was_made(ROOM).await;
                open.push((name, None));
                next = Instant::now() + dice.millis(50, 2000);
            }
            for (name, end) in &mut open {
                if end.is_none() && self.sight.get(name).is_some_and(|known| known.phase == "Running") {
                    *end = Some(Instant::now() + dice.millis(500, 5000));
                }
            }
            let is_over = |(_, end): &(String, Option<Instant>)| end.is_some_and(|end| Instant::now() >= end);
            let (done, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(is_over);
            open = rest;
            for (name, _) in done {
                self.sight.will_delete(&name);
                delete(&self.pods, &name).await;
            }
            if self.is_ending() && open.is_empty() {
                return;
            }
        }
    }

    async fn leader(&self) -> Option<usize> {
        let controllers = self.controllers.lock().await;
        for (at, controller) in controllers.iter().enumerate() {
            if controller.leads().await {
                return Some(at);
            }
        }
        None
    }

    /// Kills the leader again and again, and starts another controller each time.
    async fn kill(self: Arc<Self>, after: [u64; 2], mut dice: Dice) {
        loop {
            until("a leader", async || self.leader().await).await;
            if !self.wait(dice.millis(after[0], after[1])).await {
                return;
            }
            let moving = self.still.read().await;
            let Some(leader) = self.leader().await else { continue };
            // Dropped, it is killed.
            drop(self.controllers.lock().await.swap_remove(leader));
            drop(moving);
            let killed = Instant::now();
            self.wait(dice.millis(0, 3000)).await;
            let another = Controller::start(&self.kubeconfig, &self.namespace).await;
            self.controllers.lock().await.push(another);
            until("another leader", async || self.leader().await).await;
            self.outcome.lock().await.followed.push(killed.elapsed());
        }
    }

    async fn count(self: Arc<Self>, every: Duration) {
        while self.wait(every).await {
            let _still = self.still.write().await;
            self.count_once().await;
        }
    }

    /// Waits until every controller tells the counts that the API server has.
    async fn count_once(&self) {
        let began = Instant::now();
        loop {
            let told = self.compare().await;
            let mut outcome = self.outcome.lock().await;
            match told {
                Ok(()) => return outcome.counted.push(began.elapsed()),
                Err(difference) if began.elapsed() > Duration::from_secs(60) => {
                    return outcome.violations.push(format!("counts differ for a minute: {difference}"));
                }
                Err(_) => {}
            }
            drop(outcome);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn compare(&self) -> Result<(), String> {
        let list = async || {
            let mut all = self.pods.list(&ListParams::default()).await.unwrap().items;
            all.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
            all
        };
        let before = list().await;
        let controllers = self.controllers.lock().await;
        for (name, _) in POOLS {
            let want = tally::counts(&before, name, name == ROOM);
            for controller in controllers.iter() {
                let path = format!("/v1/pools/{}/{name}", self.namespace);
                let (code, body) = controller.get(&path).await.unwrap_or_default();
                let told: Value = serde_json::from_str(&body).unwrap_or_default();
                for (key, count) in &want {
                    if told[*key] != *count {
                        return Err(format!("{name} {key}: {count} in the cluster, told {code} {body}"));
                    }
                }
            }
        }
        let versions = |all: &[Pod]| all.iter().map(|pod| pod.metadata.resource_version.clone()).collect::<Vec<_>>();
        if versions(&before) == versions(&list().await) { Ok(()) } else { Err("it changes".into()) }
    }

    async fn sample(self: Arc<Self>, began: Instant) {
        while self.wait(Duration::from_secs(5)).await {
            let controllers = self.controllers.lock().await;
            let at = began.elapsed().as_secs();
            let memory = controllers.iter().map(|controller| (at, controller.id(), controller.resident()[0]));
            self.outcome.lock().await.memory.extend(memory);
        }
    }
}
