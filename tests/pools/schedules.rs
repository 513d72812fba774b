//! Schedules, as they are written at run time.

use jiff::{SignedDuration, Timestamp, Unit};
use serde_json::json;

use crate::{
    controlplane::wait_until,
    support::{Controller, LONG, change, plane, pool, template, wait_running},
};

#[test]
fn a_schedule_is_in_force_when_it_is_written_changed_and_taken_away_and_begins_by_the_clock() {
    let plane = plane();
    let namespace = plane.namespace("schedules");
    let _controller = Controller::start(plane, &namespace);
    // Cron knows whole minutes: the next one that is far enough for the pool to be there first.
    let begins = Timestamp::now() + SignedDuration::from_secs(70);
    let begins = begins.round(jiff::TimestampRound::new().smallest(Unit::Minute).mode(jiff::RoundMode::Floor)).unwrap();
    let at = begins.to_zoned(jiff::tz::TimeZone::UTC);
    let later = json!({"name": "later", "start": format!("{} {} * * *", at.minute(), at.hour()),
                       "durationSeconds": 3600, "minIdle": 2});
    let spec = |minimum: u32| json!({"mode": "Agents", "minIdle": minimum, "max": 5, "template": template("large", 1)});
    let mut clock = spec(1);
    clock["schedules"] = json!([later]);
    plane.apply(&pool(&namespace, "clock", &clock).to_string());
    wait_running(plane, &namespace, "podlayer.dev/pool=clock", 1);
    let early = Timestamp::now() < begins;

    plane.apply(&pool(&namespace, "p", &spec(1)).to_string());
    let of_pool = "podlayer.dev/pool=p";
    wait_running(plane, &namespace, of_pool, 1);
    let schedule = |minimum: u32| json!({"schedules": [{"name": "always", "start": "* * * * *", "durationSeconds": 60, "minIdle": minimum}]});
    let active =
        |pool: &str| plane.get_json(&["agentpool", pool, "-n", &namespace])["status"]["activeSchedule"].clone();
    change(plane, &namespace, "p", &schedule(3));
    wait_running(plane, &namespace, of_pool, 3);
    wait_until(LONG, "the schedule to be told", || active("p") == "always");
    change(plane, &namespace, "p", &schedule(2));
    wait_running(plane, &namespace, of_pool, 2);
    change(plane, &namespace, "p", &json!({"schedules": []}));
    wait_running(plane, &namespace, of_pool, 1);
    wait_until(LONG, "nothing more to be told", || active("p").is_null());

    wait_running(plane, &namespace, "podlayer.dev/pool=clock", 2);
    assert!(early && Timestamp::now() >= begins, "it began by the clock and not before");
    assert_eq!(active("clock"), "later");
}
