//! A real HorizontalPodAutoscaler: the controller manager's own, which reads and writes the pool's `/scale`, needs its
//! selector as a text, and takes its metric from an external metrics API that this test serves.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use axum::{Json, Router, extract::State, routing::get};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::{Value, json};
use tokio::{net::TcpListener, runtime::Runtime};
use tokio_rustls::TlsAcceptor;

use crate::{
    controlplane::{ControlPlane, wait_until},
    support::{Controller, LONG, plane, pool, template, wait_running},
};

const API: &str = "v1beta1.external.metrics.k8s.io";

/// An external metrics API with one number, registered with the API server until it is dropped.
struct Metrics {
    plane: &'static ControlPlane,
    value: Arc<AtomicI64>,
    _runtime: Runtime,
}

impl Metrics {
    fn serve(plane: &'static ControlPlane, namespace: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let value = Arc::new(AtomicI64::new(0));
        let root = "/apis/external.metrics.k8s.io/v1beta1";
        let router = Router::new()
            .route(root, get(discovery))
            .route(&format!("{root}/namespaces/{{namespace}}/{{metric}}"), get(number))
            .with_state(value.clone());
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let tls = tls.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(router.clone()));
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let connection = hyper::server::conn::http1::Builder::new();
                        // What goes wrong is told by the API server.
                        let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics", "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost"}});
        plane.apply(&service.to_string());
        let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": API},
            "spec": {"group": "external.metrics.k8s.io", "version": "v1beta1", "insecureSkipTLSVerify": true,
                     "groupPriorityMinimum": 100, "versionPriority": 100,
                     "service": {"namespace": namespace, "name": "metrics", "port": port}}});
        plane.apply(&api.to_string());
        wait_until(LONG, "the metrics API to be served", || {
            plane.kubectl(&["get", "--raw", &format!("{root}/namespaces/{namespace}/queue")]).ok
        });
        Self { plane, value, _runtime: runtime }
    }

    fn set(&self, value: i64) {
        self.value.store(value, Ordering::Relaxed);
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        // Before its server ends, which all who ask what the cluster serves would feel.
        self.plane.kubectl(&["delete", "apiservice", API]);
    }
}

async fn discovery() -> Json<Value> {
    Json(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "external.metrics.k8s.io/v1beta1",
        "resources": [{"name": "queue", "singularName": "", "namespaced": true, "kind": "ExternalMetricValueList", "verbs": ["get"]}]}))
}

async fn number(State(value): State<Arc<AtomicI64>>) -> Json<Value> {
    let item = json!({"metricName": "queue", "metricLabels": {}, "timestamp": jiff::Timestamp::now().to_string(),
                      "value": value.load(Ordering::Relaxed).to_string()});
    Json(json!({"kind": "ExternalMetricValueList", "apiVersion": "external.metrics.k8s.io/v1beta1", "metadata": {},
                "items": [item]}))
}

#[test]
fn a_horizontal_pod_autoscaler_scales_a_pool_up_and_down() {
    let plane = plane();
    let namespace = plane.namespace("hpa");
    let metrics = Metrics::serve(plane, &namespace);
    let _controller = Controller::start(plane, &namespace);
    // An HPA lets a target with 0 replicas alone: that is its off switch.
    let spec = json!({"mode": "Agents", "max": 10, "replicas": 1, "template": template("large", 1)});
    plane.apply(&pool(&namespace, "p", &spec).to_string());
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 1);
    metrics.set(4);
    let metric = json!({"type": "External", "external": {
        "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "1"}}});
    let hpa = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "p", "namespace": namespace},
        "spec": {"scaleTargetRef": {"apiVersion": "podlayer.dev/v1alpha1", "kind": "AgentPool", "name": "p"},
                 "minReplicas": 1, "maxReplicas": 6, "metrics": [metric],
                 "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}});
    plane.apply(&hpa.to_string());
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 4);
    metrics.set(2);
    wait_running(plane, &namespace, "podlayer.dev/pool=p", 2);
    let told = plane.get_json(&["hpa", "p", "-n", &namespace])["status"]["conditions"].clone();
    let able = told.as_array().unwrap().iter().any(|one| one["type"] == "ScalingActive" && one["status"] == "True");
    assert!(able, "{told}");
}
