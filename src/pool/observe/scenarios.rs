//! Reported failures that are about reading a pod's state.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;

fn spec(more: &Value) -> AgentPoolSpec {
    let mut spec = json!({"mode": "Agents", "jobSelector": {"matchLabels": {"ci": "x"}}, "max": 9,
                          "template": {"spec": {"containers": []}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

/// A pod made at 08:00:00, with some labels and a status.
fn pod(labels: &Value, spec: &Value, status: &Value) -> Pod {
    let owner = json!({"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool", "name": "p", "uid": "u", "controller": true});
    let mut whole = json!({
        "metadata": {"name": "p-0", "uid": "x", "resourceVersion": "7", "creationTimestamp": "2027-01-15T08:00:00Z",
                     "labels": labels, "ownerReferences": [owner]},
        "spec": {"nodeName": "n1", "restartPolicy": "Never", "containers": [{"name": "agent"}, {"name": "side"}]},
        "status": status});
    for (key, value) in spec.as_object().unwrap() {
        whole["spec"][key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn after(seconds: i64) -> Timestamp {
    "2027-01-15T08:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn waits(reason: &str) -> Value {
    json!({"phase": "Pending", "containerStatuses": [{"name": "agent", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
           "state": {"waiting": {"reason": reason}}}]})
}

fn running(ready: &str, more: &Value) -> Value {
    let mut conditions = vec![json!({"type": "Ready", "status": ready, "lastTransitionTime": "2027-01-15T08:00:05Z"})];
    conditions.extend(more.as_array().unwrap().iter().cloned());
    json!({"phase": "Running", "conditions": conditions})
}

fn state_of(pod: &Pod, spec: &AgentPoolSpec, seconds: i64) -> State {
    state(&Watched::from(pod.clone()), spec, after(seconds)).0
}

fn watched(pods: impl IntoIterator<Item = Pod>) -> Vec<Watched> {
    pods.into_iter().map(Watched::from).collect()
}

#[test]
fn scenario_04_a_pod_that_is_gone_is_gone_from_the_counts_whatever_it_said_last() {
    let ours = pod(
        &json!({"podlayer.dev/pool": "p", "podlayer.dev/pool-kind": "agent"}),
        &json!({}),
        &running("True", &json!([])),
    );
    let count = |pods: &[Watched]| observe("p", &spec(&json!({})), None, pods.iter(), |_| false, after(9)).agents.len();
    assert_eq!((count(&[ours.into()]), count(&[])), (1, 0));
}

#[test]
fn scenario_05_a_main_container_that_ended_ends_the_agent_though_a_sidecar_runs() {
    let status = |code: i32| {
        json!({"phase": "Running", "startTime": "2027-01-15T08:00:00Z", "containerStatuses": [
            {"name": "side", "ready": true, "restartCount": 0, "image": "i", "imageID": "", "state": {"running": {}}},
            {"name": "agent", "ready": false, "restartCount": 0, "image": "i", "imageID": "",
             "state": {"terminated": {"exitCode": code, "reason": "OOMKilled", "finishedAt": "2027-01-15T08:10:00Z"}}}]})
    };
    let of = |code, policy: &str| {
        state_of(&pod(&json!({}), &json!({"restartPolicy": policy}), &status(code)), &spec(&json!({})), 700)
    };
    assert_eq!(of(137, "Never"), State::Failed);
    assert_eq!(of(0, "Never"), State::Succeeded);
    assert_eq!(of(0, "OnFailure"), State::Succeeded);
    assert_ne!(of(137, "Always"), State::Failed);
    let ended = Watched::from(pod(&json!({}), &json!({}), &status(1)));
    assert_eq!(state(&ended, &spec(&json!({})), after(700)).1, after(600));
}

#[test]
fn scenario_08_images_that_can_never_be_had_count_at_once_and_others_after_half_a_minute() {
    for (reason, seconds, want) in [
        ("InvalidImageName", 0, State::Stuck(Stuck::Image)),
        ("ErrImageNeverPull", 0, State::Stuck(Stuck::Image)),
        ("ImagePullBackOff", 29, State::Starting),
        ("ImagePullBackOff", 30, State::Stuck(Stuck::Image)),
        ("ContainerCreating", 299, State::Starting),
        ("ContainerCreating", 300, State::Stuck(Stuck::Timeout)),
    ] {
        assert_eq!(
            state_of(&pod(&json!({}), &json!({}), &waits(reason)), &spec(&json!({})), seconds),
            want,
            "{reason}"
        );
    }
    let looping = json!({"phase": "Running", "containerStatuses": waits("CrashLoopBackOff")["containerStatuses"]});
    let looping = pod(&json!({}), &json!({"restartPolicy": "Always"}), &looping);
    assert_eq!(state_of(&looping, &spec(&json!({})), 9), State::Stuck(Stuck::CrashLoop));
}

#[test]
fn scenario_10_a_pod_that_is_neither_owned_nor_selected_is_never_counted() {
    let status = json!({"phase": "Pending"});
    let unscheduled = json!({"nodeName": null});
    let mut stranger = pod(&json!({"podlayer.dev/pool": "p", "podlayer.dev/pool-kind": "agent"}), &json!({}), &status);
    stranger.metadata.owner_references = None;
    let other =
        pod(&json!({"podlayer.dev/pool": "other", "podlayer.dev/pool-kind": "agent", "ci": "x"}), &json!({}), &status);
    let unrelated = pod(&json!({"ci": "y"}), &unscheduled, &status);
    let job = pod(&json!({"ci": "x"}), &unscheduled, &status);
    let pods = watched([stranger, other, unrelated, job]);
    let seen = observe("p", &spec(&json!({})), None, pods.iter(), |_| false, after(0));
    assert_eq!((seen.agents.len(), seen.jobs), (0, Jobs { queued: 1, ..Jobs::default() }));
}

#[test]
fn scenario_14_a_pod_past_its_grace_period_is_told_apart_from_one_that_is_going() {
    let mut going = pod(&json!({}), &json!({}), &running("True", &json!([])));
    let ends: Timestamp = after(100);
    going.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(ends));
    assert_eq!(state_of(&going, &spec(&json!({})), 160), State::Terminating);
    assert_eq!(state_of(&going, &spec(&json!({})), 161), State::Overdue);
}

#[test]
fn scenario_20_what_nobody_knows_is_unknown_and_not_idle() {
    let gate = spec(&json!({"busy": {"source": "ReadinessGate", "key": "ci/free"}}));
    let condition = |status: &str| json!([{"type": "ci/free", "status": status}]);
    for (status, want) in [
        (running("True", &json!([])), State::Unknown),
        (running("True", &condition("Unknown")), State::Unknown),
        (running("True", &condition("False")), State::Busy),
        (running("True", &condition("True")), State::Idle),
        (running("Unknown", &condition("True")), State::Unknown),
        (json!({"phase": "Unknown"}), State::Unknown),
    ] {
        assert_eq!(state_of(&pod(&json!({}), &json!({}), &status), &gate, 60), want, "{status}");
    }
}

#[test]
fn scenario_47_jobs_that_something_holds_back_are_no_demand() {
    let pods = [
        pod(
            &json!({"ci": "x"}),
            &json!({"nodeName": null, "schedulingGates": [{"name": "kueue"}]}),
            &json!({"phase": "Pending"}),
        ),
        pod(&json!({"ci": "x"}), &json!({"nodeName": null}), &json!({"phase": "Pending"})),
        pod(&json!({"ci": "x"}), &json!({}), &json!({"phase": "Pending"})),
        pod(&json!({"ci": "x"}), &json!({}), &running("True", &json!([]))),
    ];
    let seen = observe("p", &spec(&json!({})), None, watched(pods).iter(), |_| false, after(0));
    assert_eq!(seen.jobs, Jobs { queued: 1, starting: 1, busy: 1, ..Jobs::default() });
}

#[test]
fn each_source_of_busy_is_read_as_the_pool_says() {
    let at_work = pod(&json!({"podlayer.dev/busy": "true", "job": "7"}), &json!({}), &running("True", &json!([])));
    let free = pod(&json!({"podlayer.dev/busy": "false"}), &json!({}), &running("True", &json!([])));
    for (busy, one, other) in [
        (json!({}), State::Busy, State::Idle),
        (json!({"busy": {"source": "Label", "key": "job", "value": "7"}}), State::Busy, State::Idle),
        (json!({"busy": {"source": "Annotation", "key": "job"}}), State::Idle, State::Idle),
        (json!({"busy": {"source": "PodPhase"}}), State::Busy, State::Busy),
    ] {
        let spec = spec(&busy);
        assert_eq!((state_of(&at_work, &spec, 60), state_of(&free, &spec, 60)), (one, other), "{busy}");
    }
    let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
    let unscheduled = pod(&json!({}), &json!({"nodeName": null}), &unscheduled);
    assert_eq!(state_of(&unscheduled, &spec(&json!({})), 9), State::Unschedulable);
}

#[test]
fn the_newest_job_pod_is_the_sample_and_once_it_is_gone_the_one_before_it() {
    let job = |name: &str, second: u32, more: &Value| {
        let mut job = pod(&json!({"ci": "x"}), more, &running("True", &json!([])));
        job.metadata.name = Some(name.into());
        job.metadata.creation_timestamp =
            Some(serde_json::from_value(json!(format!("2027-01-15T08:00:{second:02}Z"))).unwrap());
        job.metadata.managed_fields = Some(vec![Default::default()]);
        job
    };
    let own = pod(&json!({"podlayer.dev/pool": "p", "ci": "x"}), &json!({}), &json!({}));
    let whole = job(
        "b",
        2,
        &json!({"tolerations": [{"key": "gpu"}], "containers": [{"name": "c", "env": [{"name": "E", "value": "v"}]}]}),
    );
    let mut pods = watched([job("a", 1, &json!({})), whole.clone(), own, job("c", 2, &json!({}))]);
    let newest = |pods: &[Watched]| {
        newest(&spec(&json!({})), pods.iter())
            .map(|sample| serde_json::from_str::<Value>(&sample.text().unwrap()).unwrap())
    };
    assert_eq!(newest(&pods).unwrap()["metadata"]["name"], "c", "of two made in one second the last by name");
    pods.pop();
    // Nothing is lost but what no decision reads.
    let mut want = serde_json::to_value(&whole).unwrap();
    want.as_object_mut().unwrap().retain(|key, _| ["metadata", "spec"].contains(&key.as_str()));
    want["metadata"].as_object_mut().unwrap().remove("managedFields");
    assert_eq!(newest(&pods).unwrap(), want);
    pods.remove(1);
    assert_eq!(newest(&pods).unwrap()["metadata"]["name"], "a");
    pods.remove(0);
    assert_eq!(newest(&pods), None, "a pool's own pod is no sample");
}

/// What happens between a pod's status and another of it, to a pool of some mode.
fn between(labels: &Value, mode: &str, before: &Value, now: &Value) -> Vec<Happening> {
    let of = |status: &Value| Watched::from(pod(labels, &json!({}), status));
    let before = of(before);
    let now = of(now).after(Some(&before));
    happenings(&before, &now, &spec(&json!({"mode": mode})))
}

const OWN: &str = r#"{"podlayer.dev/pool": "p", "podlayer.dev/pool-kind": "agent", "podlayer.dev/busy": "true"}"#;

#[test]
fn a_start_is_counted_once_from_creation_to_the_first_readiness() {
    let own: Value = serde_json::from_str(OWN).unwrap();
    let (starting, ready, unready) = (json!({}), running("True", &json!([])), running("False", &json!([])));
    let started = Happening::Started(std::time::Duration::from_secs(5));
    assert_eq!(between(&own, "Agents", &starting, &ready), [started]);
    assert_eq!(between(&own, "Headroom", &unready, &ready), [started]);
    assert_eq!(between(&own, "Agents", &ready, &ready), []);
    assert_eq!(between(&json!({"ci": "x"}), "Agents", &starting, &ready), [], "not a pool's own");
    // It was ready, wasn't, and is again.
    let of = |status: &Value| Watched::from(pod(&own, &json!({}), status));
    let first = of(&ready);
    let second = of(&unready).after(Some(&first));
    let third = of(&ready).after(Some(&second));
    assert_eq!(happenings(&second, &third, &spec(&json!({}))), []);
    // Another pod of its name is another pod.
    let mut other = pod(&own, &json!({}), &ready);
    other.metadata.uid = Some("y".into());
    assert_eq!(happenings(&of(&starting), &Watched::from(other), &spec(&json!({}))), []);
}

#[test]
fn a_job_waits_from_its_creation_until_it_has_a_node_and_never_less_than_nothing() {
    let job = json!({"ci": "x"});
    let scheduled = |status: &str, at: &str| json!({"conditions": [{"type": "PodScheduled", "status": status, "lastTransitionTime": at}]});
    let (not, then) = (scheduled("False", "2027-01-15T08:00:01Z"), scheduled("True", "2027-01-15T08:01:40Z"));
    let placed = |seconds| Happening::Placed(std::time::Duration::from_secs(seconds));
    for mode in ["Agents", "Headroom", "Observe"] {
        assert_eq!(between(&job, mode, &not, &then), [placed(100)], "{mode}");
    }
    assert_eq!(between(&job, "Agents", &then, &then), []);
    let early = scheduled("True", "2027-01-15T07:59:59Z");
    assert_eq!(between(&job, "Agents", &not, &early), [placed(0)], "clocks differ");
    assert_eq!(between(&serde_json::from_str(OWN).unwrap(), "Agents", &not, &then), [], "a pool's own pod is no job");
}

#[test]
fn evictions_count_of_what_is_at_work_only_and_deletions_do_not() {
    let (own, job): (Value, Value) = (serde_json::from_str(OWN).unwrap(), json!({"ci": "x"}));
    let idle = json!({"podlayer.dev/pool": "p", "podlayer.dev/pool-kind": "agent"});
    let target = json!([{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]);
    let (runs, evicted) = (running("True", &json!([])), running("True", &target));
    for (labels, mode, count) in [
        (&own, "Agents", 1),
        (&idle, "Agents", 0),
        (&job, "Agents", 0),
        (&own, "Headroom", 0),
        (&job, "Headroom", 1),
        (&job, "Observe", 1),
    ] {
        let want = vec![Happening::Evicted; count];
        assert_eq!(between(labels, mode, &runs, &evicted), want, "{labels} {mode}");
        assert_eq!(between(labels, mode, &evicted, &evicted), [], "once");
        // Its node evicts it by ending it.
        let ended = json!({"phase": "Failed", "conditions": target});
        assert_eq!(between(labels, mode, &runs, &ended), want, "{labels} {mode}");
        assert_eq!(between(labels, mode, &json!({"phase": "Succeeded"}), &ended), [], "its work was done");
    }
    let before = Watched::from(pod(&own, &json!({}), &runs));
    let mut deleted = pod(&own, &json!({}), &runs);
    deleted.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(after(9)));
    assert_eq!(happenings(&before, &Watched::from(deleted), &spec(&json!({}))), []);
}
