//! An Azure DevOps, written from the description of its REST calls: agent clouds and pools of one organisation, on a
//! socket of 127.0.0.1. It is as strict as it is described to be and says what it was asked.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{Method, StatusCode, header},
    response::Response,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::program::PAT;

/// The organisation's name.
const ORGANIZATION: &str = "example";

/// What it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) authorization: String,
    pub(crate) body: String,
}

/// A different answer to a call, before the usual one: status, content type, body.
pub(crate) type Instead = Box<dyn FnMut(&Call) -> Option<(u16, &'static str, String)> + Send>;

#[derive(Default)]
pub(crate) struct Held {
    pub(crate) clouds: Vec<Value>,
    pub(crate) pools: Vec<Value>,
    /// The secrets, which are never told.
    pub(crate) secrets: Vec<String>,
    pub(crate) calls: Vec<Call>,
    pub(crate) connections: usize,
    pub(crate) instead: Option<Instead>,
    pub(crate) delay: Duration,
    next: i64,
}

/// It runs until the test process ends.
#[derive(Clone)]
pub(crate) struct DevOps {
    address: SocketAddr,
    scheme: &'static str,
    held: Arc<Mutex<Held>>,
}

impl DevOps {
    /// Starts one over plain HTTP.
    pub(crate) fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts one over TLS.
    pub(crate) fn start_tls(tls: rustls::ServerConfig) -> Self {
        Self::start_with(Some(TlsAcceptor::from(Arc::new(tls))))
    }

    fn start_with(tls: Option<TlsAcceptor>) -> Self {
        let held = Arc::new(Mutex::new(Held { next: 7, ..Held::default() }));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let serving = held.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { serve(TcpListener::from_std(listener).unwrap(), tls, serving).await });
        });
        Self { address, scheme, held }
    }

    /// What `--uri` takes.
    pub(crate) fn uri(&self) -> String {
        format!("{}://{}/{ORGANIZATION}", self.scheme, self.address)
    }

    pub(crate) fn held<T>(&self, look: impl FnOnce(&mut Held) -> T) -> T {
        look(&mut self.held.lock().unwrap())
    }

    /// Answers otherwise from now on.
    pub(crate) fn instead(&self, instead: impl FnMut(&Call) -> Option<(u16, &'static str, String)> + Send + 'static) {
        self.held(|held| held.instead = Some(Box::new(instead)));
    }

    /// The calls so far as `METHOD path`, without the organisation.
    pub(crate) fn calls(&self) -> Vec<String> {
        let short = |call: &Call| {
            let path = call.path.strip_prefix("/example/_apis/distributedtask").unwrap_or(&call.path);
            format!("{} {path}", call.method)
        };
        self.held(|held| held.calls.iter().map(short).collect())
    }

    pub(crate) fn forget_calls(&self) {
        self.held(|held| held.calls.clear());
    }
}

async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, held: Arc<Mutex<Held>>) {
    let router = Router::new().fallback(answer).with_state(held.clone());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        held.lock().unwrap().connections += 1;
        let (router, tls) = (router.clone(), tls.clone());
        tokio::spawn(async move {
            let service = TowerToHyperService::new(router);
            let http = hyper::server::conn::http1::Builder::new();
            // A client that goes away is no failure of the test.
            match tls {
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        let _ = http.serve_connection(TokioIo::new(stream), service).await;
                    }
                }
                None => _ = http.serve_connection(TokioIo::new(stream), service).await,
            }
        });
    }
}

async fn answer(State(held): State<Arc<Mutex<Held>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let header = |name: header::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let call = Call {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        authorization: header(header::AUTHORIZATION),
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    let (status, kind, text, delay) = {
        let mut held = held.lock().unwrap();
        held.calls.push(call.clone());
        let mut instead = held.instead.take();
        let other = instead.as_mut().and_then(|instead| instead(&call));
        held.instead = instead;
        let usual = || {
            let (status, body) = usual(&mut held, &parts.method, &call);
            (status, "application/json; charset=utf-8", body.map_or_else(String::new, |body| body.to_string()))
        };
        let (status, kind, text) = other.unwrap_or_else(usual);
        (status, kind, text, held.delay)
    };
    tokio::time::sleep(delay).await;
    let mut answer =
        Response::builder().status(StatusCode::from_u16(status).unwrap()).header(header::CONTENT_TYPE, kind);
    if (300..400).contains(&status) {
        answer = answer.header(header::LOCATION, text.clone());
    }
    answer.body(Body::from(text)).unwrap()
}

type Answer = (u16, Option<Value>);

fn refused(status: u16, message: &str) -> Answer {
    (status, Some(json!({"$id": "1", "message": message, "typeKey": "Refused"})))
}

fn usual(held: &mut Held, method: &Method, call: &Call) -> Answer {
    if call.authorization != format!("Basic {}", STANDARD.encode(format!(":{PAT}"))) {
        return (401, None);
    }
    if call.query != "api-version=5.0-preview" {
        return refused(400, "No api-version was supplied; this is a preview, so it must be supplied with -preview.");
    }
    let Some(path) = call.path.strip_prefix("/example/_apis/distributedtask/") else { return refused(404, "No.") };
    let body = || serde_json::from_str::<Value>(&call.body).ok();
    match (method.as_str(), path.split('/').collect::<Vec<_>>().as_slice()) {
        ("GET", ["agentclouds"]) => (200, Some(list(&held.clouds))),
        ("GET", ["pools"]) => (200, Some(list(&held.pools))),
        ("POST", ["agentclouds"]) => match body() {
            Some(body) => add_cloud(held, body),
            None => refused(400, "This is no JSON."),
        },
        ("POST", ["pools"]) => match body() {
            Some(body) => add_pool(held, &body),
            None => refused(400, "This is no JSON."),
        },
        ("PATCH", ["pools", id]) => {
            let found = held.pools.iter_mut().find(|pool| is(&pool["id"], id));
            match (found, body()) {
                (Some(pool), Some(body)) => {
                    pool["targetSize"] = body["targetSize"].clone();
                    (200, Some(pool.clone()))
                }
                _ => refused(404, "There is no such pool."),
            }
        }
        ("DELETE", ["pools", id]) => {
            let before = held.pools.len();
            held.pools.retain(|pool| !is(&pool["id"], id));
            if held.pools.len() < before { (204, None) } else { refused(404, "There is no such pool.") }
        }
        ("DELETE", ["agentclouds", id]) => {
            if held.pools.iter().any(|pool| is(&pool["agentCloudId"], id)) {
                return refused(409, "The agent cloud has pools.");
            }
            let before = held.clouds.len();
            held.clouds.retain(|cloud| !is(&cloud["agentCloudId"], id));
            if held.clouds.len() < before { (204, None) } else { refused(404, "There is no such agent cloud.") }
        }
        _ => refused(404, "There is nothing here."),
    }
}

/// Whether a number is the one in a path.
fn is(number: &Value, id: &str) -> bool {
    number.as_i64().is_some_and(|number| id.parse() == Ok(number))
}

fn list(all: &[Value]) -> Value {
    json!({"count": all.len(), "value": all})
}

fn is_taken(all: &[Value], name: &Value) -> bool {
    all.iter().any(|there| there["name"].as_str().map(str::to_lowercase) == name.as_str().map(str::to_lowercase))
}

fn add_cloud(held: &mut Held, mut body: Value) -> Answer {
    let secret = body["sharedSecret"].as_str().unwrap_or_default().to_owned();
    let urls = ["acquireAgentEndpoint", "releaseAgentEndpoint"];
    if !urls.iter().all(|url| body[url].as_str().is_some_and(|url| url.starts_with("https://"))) {
        return refused(400, "An endpoint is missing or isn't https.");
    }
    if secret.len() < 16 || body["type"] != "Ignore" || !body["name"].is_string() {
        return refused(400, "The agent cloud isn't whole.");
    }
    if is_taken(&held.clouds, &body["name"]) {
        return refused(409, "The agent cloud exists.");
    }
    held.secrets.push(secret);
    let cloud = body.as_object_mut().unwrap();
    cloud.remove("sharedSecret");
    cloud.insert("agentCloudId".into(), json!(held.next));
    cloud.insert("internal".into(), json!(false));
    held.next += 1;
    held.clouds.push(body.clone());
    (200, Some(body))
}

fn add_pool(held: &mut Held, body: &Value) -> Answer {
    if is_taken(&held.pools, &body["name"]) {
        return refused(409, "The pool exists.");
    }
    if !held.clouds.iter().any(|cloud| cloud["agentCloudId"] == body["agentCloudId"]) {
        return refused(400, "There is no such agent cloud.");
    }
    let pool = json!({"id": held.next, "name": body["name"], "agentCloudId": body["agentCloudId"],
                      "targetSize": body["targetSize"], "size": 0, "isHosted": false, "poolType": "automation"});
    held.next += 1;
    held.pools.push(pool.clone());
    (200, Some(pool))
}
