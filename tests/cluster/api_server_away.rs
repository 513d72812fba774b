//! The API server can't be reached for a while: what was read last is served, and the watch is taken up again.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, free_port, wait_until},
    podlayer::Webhook,
};

/// The network between podlayer and the API server, which can be cut.
struct Line {
    port: u16,
    up: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Line {
    fn new(server: &str, up: bool) -> Self {
        let target = server.strip_prefix("https://").unwrap().to_owned();
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let line = Self { port, up: Arc::new(AtomicBool::new(up)), open: Arc::default() };
        let (up, open) = (Arc::clone(&line.up), Arc::clone(&line.open));
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                if !up.load(Ordering::SeqCst) {
                    // Dropped: as a host that refuses.
                    continue;
                }
                let far = TcpStream::connect(&target).unwrap();
                let mut open = open.lock().unwrap();
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || {
                        let mut buffer = [0; 16 << 10];
                        while let Ok(length @ 1..) = from.read(&mut buffer) {
                            if to.write_all(&buffer[..length]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                open.extend([near, far]);
            }
        });
        line
    }

    fn cut(&self) {
        self.up.store(false, Ordering::SeqCst);
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.up.store(true, Ordering::SeqCst);
    }
}

#[test]
fn an_api_server_that_is_away_at_the_start_and_later_costs_changes_and_nothing_else() {
    let plane = ControlPlane::shared();
    let line = Line::new(plane.server(), false);
    let own = plane.namespace("podlayer");
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let there = format!("https://127.0.0.1:{}", line.port);
    let text = std::fs::read_to_string(plane.kubeconfig()).unwrap().replace(plane.server(), &there);
    std::fs::write(&kubeconfig, text).unwrap();

    let webhook = Webhook::spawn(&own, kubeconfig.to_str().unwrap(), &[]);
    wait_until(Duration::from_secs(30), "it to say what is missing", || {
        webhook.get("/readyz").contains("the layers were not read yet")
    });
    assert!(webhook.get("/livez").starts_with("HTTP/1.1 200"), "waiting is no reason to be killed");
    assert_eq!(webhook.layers()["snapshot"], Value::Null);
    line.mend();
    webhook.wait_ready();
    assert!(webhook.log().contains("newer fields of pods"), "{}", webhook.log());

    let namespace = plane.namespace("ci");
    webhook.register(plane, &namespace, "Fail");
    let labels = json!({"podlayer.dev/layer": "default"});
    let account = |name: &str| webhook.layer(plane, "base", &labels, &BTreeMap::from([("podMetadata", name)]));
    let made = || {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace,
            "labels": {"podlayer.dev/enabled": "true"}}, "spec": {"containers": [{"name": "a", "image": "b:1"}]}});
        let made = plane.kubectl_in(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &pod.to_string());
        assert!(made.ok, "{}", made.stderr);
        serde_json::from_str::<Value>(&made.stdout).unwrap()["metadata"]["labels"]["round"].clone()
    };
    account("labels: {round: one}");
    wait_until(Duration::from_secs(20), "the first version", || made() == "one");

    line.cut();
    wait_until(Duration::from_secs(30), "the watch to break", || webhook.metric("podlayer_watch_failures_total") > 0.0);
    account("labels: {round: two}");
    for _ in 0..3 {
        assert_eq!(made(), "one", "the last layers are served, changes wait");
    }
    assert!(webhook.get("/readyz").starts_with("HTTP/1.1 200"), "it goes on serving");
    line.mend();
    wait_until(Duration::from_secs(60), "the watch to be taken up again", || made() == "two");
    Webhook::unregister(plane, &namespace);
}
