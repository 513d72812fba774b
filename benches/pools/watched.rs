//! What the controller needs with 5,000 pods in its namespace.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures::{StreamExt, stream};
use serde_json::json;

use crate::{
    place::{Ground, POOLS, Place},
    pools::{
        Dice,
        controller::Controller,
        objects::{change, make, real_job, template},
        until,
    },
    report::Report,
};

/// Jobs as agent-stack-k8s makes them, held back, so that neither scheduler nor kwok touches them; agents make the 5,000
/// full.
const JOBS: usize = 4000;
const AGENTS: usize = 1000;
/// How long each phase is measured.
const PHASE: Duration = Duration::from_secs(20);
/// A variable that names another build of podlayer, for comparison, and how often each has its turn.
const OTHER: &str = "PODLAYER_BENCH_OTHER";
const TURNS: u32 = 2;
/// Changes of pods in a second.
const RATE: u32 = 20;

pub(crate) async fn measure(place: &Place, report: &mut Report) {
    let mut ground = place.ground("watched").await;
    report.title("5,000 watched pods in 20 pools");
    let bytes = real_job("p0", "a-name", None).to_string().len();
    report.text(&format!(
        "{JOBS} job pods as agent-stack-k8s makes them ({bytes} bytes when sent, more once the API server has filled in its \
         defaults; held back, so their statuses are empty) and {AGENTS} agents that run, half of the pools Headroom without \
         a template. `VmRSS`, `VmHWM` and CPU time of the process, from /proc."
    ));
    report.head(&["", "resident MiB", "most MiB", "CPU, % of one core"]);
    phase(report, &ground, "no pool, no pod", async { tokio::time::sleep(PHASE).await }).await;
    for number in 0..POOLS {
        let spec = if number % 2 == 0 {
            json!({"mode": "Agents", "minIdle": 2 * AGENTS / POOLS, "max": 2000, "template": template("bench")})
        } else {
            json!({"mode": "Headroom", "minIdle": 0, "max": 2000})
        };
        ground.pool(&format!("p{number}"), &spec).await;
    }
    let jobs = (0..JOBS).map(|at| real_job(&format!("p{}", at % POOLS), &format!("job-{at}"), None));
    let pods = &ground.pods;
    let fill = async {
        stream::iter(jobs.map(async |pod| make(pods, &pod).await.unwrap())).buffer_unordered(8).count().await;
        // However slow the machine is.
        while ground.sight.count(|known| known.phase == "Running") < AGENTS {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    phase(report, &ground, "while they come", fill).await;
    phase(report, &ground, "5,000 pods, nothing happens", async { tokio::time::sleep(PHASE).await }).await;
    phase(report, &ground, "20 changes of pods a second", changes(&ground)).await;

    // As after an update: everything is listed at once.
    ground.controller.kill();
    let began = Instant::now();
    ground.controller = Controller::start(ground.kubeconfig.path().to_str().unwrap(), &ground.namespace).await;
    let ready = began.elapsed();
    phase(report, &ground, "another controller, started beside 5,000 pods", async { tokio::time::sleep(PHASE).await })
        .await;
    phase(report, &ground, "it, 20 changes of pods a second", changes(&ground)).await;
    report.text(&format!("It was ready (everything listed) after {:.2} s.", ready.as_secs_f64()));
    if let Some(other) = std::env::var_os(OTHER) {
        by_turns(report, &mut ground, Path::new(&other)).await;
    }
    ground.clear(place).await;
}

/// The same pods, watched by this build and another in turns: what differs is the build.
async fn by_turns(report: &mut Report, ground: &mut Ground, other: &Path) {
    report.title("5,000 watched pods: this build and another by turns");
    report.head(&["", "resident MiB", "most MiB", "CPU, % of one core"]);
    let this = Path::new(env!("CARGO_BIN_EXE_podlayer"));
    for turn in 1..=TURNS {
        for (name, program) in [("other", other), ("this", this)] {
            ground.controller.kill();
            let kubeconfig = ground.kubeconfig.path().to_str().unwrap();
            ground.controller = Controller::start_program(program, kubeconfig, &ground.namespace).await;
            until("a leader", async || ground.controller.leads().await.then_some(())).await;
            let what = |doing: &str| format!("{name}, turn {turn}, {doing}");
            phase(report, ground, &what("nothing happens"), async { tokio::time::sleep(PHASE).await }).await;
            phase(report, ground, &what("20 changes of pods a second"), changes(ground)).await;
        }
    }
}

async fn phase(report: &mut Report, ground: &Ground, what: &str, doing: impl Future<Output = ()>) {
    let (cpu, began) = (ground.controller.cpu(), Instant::now());
    doing.await;
    let cpu = (ground.controller.cpu() - cpu).as_secs_f64() / began.elapsed().as_secs_f64();
    let [now, most] = ground.controller.resident().map(|kib| format!("{:.0}", kib as f64 / 1024.0));
    report.row(&[what.to_owned(), now, most, format!("{:.1}", cpu * 100.0)]);
}

async fn changes(ground: &Ground) {
    let mut dice = Dice::new(11);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE);
    let began = Instant::now();
    while began.elapsed() < PHASE {
        ticks.tick().await;
        let name = format!("job-{}", dice.between(0, JOBS as u64));
        let patch = json!({"metadata": {"annotations": {"test/change": dice.between(0, 1_000_000).to_string()}}});
        change(&ground.pods, &name, None, patch).await.unwrap();
    }
}
