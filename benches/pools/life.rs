//! What an agent's life costs the API server in writes.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, stream};
use serde_json::json;

use crate::{
    place::{Ground, POOLS, Place},
    pools::{
        objects::{change, delete_all, job, make, template},
        sight::Known,
        until,
    },
    report::Report,
    requests::between,
};

/// Lives in each pool.
const EACH: usize = 10;

pub(crate) async fn measure(place: &Place, report: &mut Report) {
    let ground = place.ground("life").await;
    for number in 0..POOLS {
        let spec =
            json!({"mode": "Agents", "max": 50, "template": template("bench"), "scaleDown": {"delaySeconds": 30}});
        ground.pool(&format!("p{number}"), &spec).await;
    }
    for number in 0..POOLS {
        let spec = json!({"mode": "Headroom", "headroomPercent": 100, "max": 100, "template": template("bench")});
        ground.pool(&format!("h{number}"), &spec).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let rest = {
        let before = ground.requests().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        between(&before, &ground.requests().await)
    };
    let agents = one(&ground, agents_live).await;
    let headroom = one(&ground, placeholders_live).await;
    tell(report, &rest, &[("an agent", agents), ("a placeholder", headroom)]);
    ground.clear(place).await;
}

/// What was counted during something: by the API server, and by the controller.
struct Counts {
    lives: usize,
    server: BTreeMap<String, u64>,
    own: BTreeMap<String, u64>,
}

async fn one(ground: &Ground, what: impl AsyncFn(&Ground) -> usize) -> Counts {
    let (server, own) = (ground.requests().await, own_counts(&ground.controller.metrics().await));
    let lives = what(ground).await;
    // The last status.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let own = between(&own, &own_counts(&ground.controller.metrics().await));
    Counts { lives, server: between(&server, &ground.requests().await), own }
}

fn own_counts(metrics: &str) -> BTreeMap<String, u64> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix("podlayer_pool_api_writes_total{verb=\""));
    lines.filter_map(|line| line.split_once("\"} ")).map(|(verb, n)| (verb.to_owned(), n.parse().unwrap())).collect()
}

/// Wanted by a job, started, at work, free again, marked, deleted.
async fn agents_live(ground: &Ground) -> usize {
    let (sight, pods, all) = (&ground.sight, &ground.pods, POOLS * EACH);
    let jobs = (0..all).map(|number| job(&format!("p{}", number % POOLS), &format!("job-{number}"), "none"));
    stream::iter(jobs.map(async |pod| make(pods, &pod).await.unwrap())).buffer_unordered(8).count().await;
    let own = |known: &Known| known.pool.is_some();
    until("the agents", async || (sight.count(|known| own(known) && known.is_free()) == all).then_some(())).await;
    let mark = |busy: Option<&str>| json!({"metadata": {"labels": {podlayer::names::POOL_BUSY: busy}}});
    let names: Vec<String> =
        (0..POOLS).flat_map(|number| sight.own(&format!("p{number}"))).map(|known| known.name).collect();
    let set = async |busy: Option<&str>| {
        let changes = names.iter().map(async |name| change(pods, name, None, mark(busy)).await.unwrap());
        stream::iter(changes).buffer_unordered(8).count().await;
    };
    (0..all).for_each(|number| sight.will_delete(&format!("job-{number}")));
    delete_all(pods, crate::pools::objects::JOB).await;
    set(Some("true")).await;
    until("them to be kept", async || (sight.count(|known| known.busy && known.kept) == all).then_some(())).await;
    set(None).await;
    until("them to go", async || (sight.count(own) == 0).then_some(())).await;
    all
}

/// Made beside a job at work, deleted when that ends.
async fn placeholders_live(ground: &Ground) -> usize {
    let (sight, pods, all) = (&ground.sight, &ground.pods, POOLS * EACH);
    let jobs = (0..all).map(|number| job(&format!("h{}", number % POOLS), &format!("room-{number}"), "bench"));
    stream::iter(jobs.map(async |pod| make(pods, &pod).await.unwrap())).buffer_unordered(8).count().await;
    let own = |known: &Known| known.pool.is_some();
    let ready = |known: &Known| own(known) && known.phase == "Running";
    until("the placeholders", async || (sight.count(ready) == all).then_some(())).await;
    (0..all).for_each(|number| sight.will_delete(&format!("room-{number}")));
    delete_all(pods, crate::pools::objects::JOB).await;
    until("them to go", async || (sight.count(own) == 0).then_some(())).await;
    all
}

fn tell(report: &mut Report, rest: &BTreeMap<String, u64>, all: &[(&str, Counts)]) {
    report.title("Writes to the API server for one life");
    report.text(&format!(
        "{} lives in {POOLS} pools at the same time, an agent's: wanted by a job, started, at work (two annotations), \
         free again, marked, deleted; a placeholder's: made, deleted. The API server's own count, by FlowSchemas on the \
         controller's account; in brackets the controller's metric `podlayer_pool_api_writes_total`.",
        all[0].1.lives
    ));
    report.head(&["", "create", "patch", "delete", "status", "event", "other", "together"]);
    let kinds = [
        ("create-pod", "create"),
        ("patch-pod", "patch"),
        ("delete-pod", "delete"),
        ("status", "status"),
        ("event", "event"),
        ("other-write", "apply"),
    ];
    for (name, counts) in all {
        let of = |counted: &BTreeMap<String, u64>, kind: &str| {
            counted.get(kind).copied().unwrap_or_default() as f64 / counts.lives as f64
        };
        let mut row = vec![(*name).to_owned()];
        let cell =
            |(theirs, ours): &(&str, &str)| format!("{:.2} ({:.2})", of(&counts.server, theirs), of(&counts.own, ours));
        row.extend(kinds.iter().map(cell));
        let sum = |counted: &BTreeMap<String, u64>, at: usize| -> f64 {
            kinds.iter().map(|kind| of(counted, [kind.0, kind.1][at])).sum()
        };
        row.push(format!("{:.2} ({:.2})", sum(&counts.server, 0), sum(&counts.own, 1)));
        report.row(&row);
    }
    report.text(&format!(
        "At rest, {} pools without pods: {rest:?} requests in a minute (`lease` is the leader's renewal, `other-write` puts \
         budgets right that nobody changed).",
        2 * POOLS
    ));
    let lines = all.iter().flat_map(|(name, counts)| {
        let server =
            counts.server.iter().map(move |(kind, count)| format!("{name},server,{kind},{count},{}", counts.lives));
        let own =
            counts.own.iter().map(move |(kind, count)| format!("{name},controller,{kind},{count},{}", counts.lives));
        server.chain(own)
    });
    report.raw("life.csv", "life,counted_by,kind,count,lives", lines);
}
