use std::{collections::BTreeMap, process::Command, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use serde_json::json;

use crate::{
    controlplane::{ControlPlane, wait_until},
    kwok::Kwok,
    pools::{
        client,
        controller::Controller,
        objects::{pods, pool},
        sight::Sight,
        tally::apply,
        until,
    },
    requests,
};

/// How many pools there are in each measurement but the soak.
pub(crate) const POOLS: usize = 20;

/// The control plane with its nodes.
pub(crate) struct Place {
    pub(crate) plane: &'static ControlPlane,
    pub(crate) client: Client,
}

/// A namespace with a controller that has an account of its own, so that its requests can be told from others'.
pub(crate) struct Ground {
    pub(crate) namespace: String,
    pub(crate) pods: Api<Pod>,
    pub(crate) sight: Sight,
    pub(crate) controller: Controller,
    pub(crate) kubeconfig: tempfile::NamedTempFile,
    client: Client,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let plane = ControlPlane::shared();
        let crd = Command::new(env!("CARGO_BIN_EXE_podlayer")).arg("crd").output().unwrap();
        plane.apply(&String::from_utf8(crd.stdout).unwrap());
        plane.apply(include_str!("../../manifests/pools/priority-class.yaml"));
        wait_until(Duration::from_secs(60), "pools to be served", || plane.kubectl(&["get", "agentpools"]).ok);
        let place = Self { plane, client: client(plane.kubeconfig()).await };
        place.node("bench", 10_000);
        place
    }

    pub(crate) fn node(&self, name: &str, cpus: u32) {
        Kwok::shared().node(self.plane, name, cpus);
    }

    pub(crate) fn namespace(&self, prefix: &str) -> String {
        self.plane.namespace(prefix)
    }

    pub(crate) async fn ground(&self, prefix: &str) -> Ground {
        let (plane, namespace) = (self.plane, self.plane.namespace(prefix));
        let account = format!("--serviceaccount={namespace}:controller");
        plane.kubectl(&["create", "serviceaccount", "controller", "-n", &namespace]);
        plane.kubectl(&["create", "clusterrolebinding", &namespace, "--clusterrole=cluster-admin", &account]);
        requests::tell_apart(plane, &namespace);
        let token = plane.kubectl(&["create", "token", "controller", "-n", &namespace, "--duration=24h"]).stdout;
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": plane.server(), "certificate-authority": plane.ca()}}],
            "users": [{"name": "c", "user": {"token": token.trim()}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": namespace}}]});
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(kubeconfig.path(), config.to_string()).unwrap();
        let controller = Controller::start(kubeconfig.path().to_str().unwrap(), &namespace).await;
        until("a leader", async || controller.leads().await.then_some(())).await;
        // Its second of settling.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (pods, sight) = (pods(&self.client, &namespace), Sight::start(&self.client, &namespace));
        Ground { namespace, pods, sight, controller, kubeconfig, client: self.client.clone() }
    }
}

impl Ground {
    pub(crate) async fn pool(&self, name: &str, spec: &serde_json::Value) {
        apply(&self.client, &pool(&self.namespace, name, spec)).await;
    }

    /// Requests that the API server has counted of this controller.
    pub(crate) async fn requests(&self) -> BTreeMap<String, u64> {
        requests::counted(&self.client, &self.namespace).await
    }

    /// Ends the controller and removes everything, so that it isn't in the way of what is measured next.
    pub(crate) async fn clear(mut self, place: &Place) {
        self.controller.kill();
        crate::pools::objects::delete_all(&self.pods, "").await;
        until("the pods to go", async || (self.sight.count(|_| true) == 0).then_some(())).await;
        place.plane.kubectl(&["delete", "namespace", &self.namespace, "--wait=false"]);
    }
}
