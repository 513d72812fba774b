use std::{
    fmt::Write,
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value as Json, json};
use time::OffsetDateTime;
use tokio::sync::watch;

use super::{
    certs,
    files::LayerFiles,
    loopback::Loopback,
    object::Object,
    report::{CliError, Outcome, note, print},
    start,
};
use crate::{
    admission::{Policy, handler::Handler, trace},
    certs::{dev::Authority, files::Files},
    explain::Explanation,
    layers::Snapshot,
    names,
    server::{self, Drain, Limits},
    telemetry::Metrics,
};

/// Flags of `demo`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Go on serving after the show, until Ctrl-C.
    #[arg(long)]
    keep: bool,
}

const LAYER: (&str, &str) = ("base.yaml", include_str!("../../examples/demo/layers/base.yaml"));

/// The pods of the show, with what each is about.
const PODS: [(&str, &str, &str); 4] = [
    ("a pod that is not opted in", "not-opted-in.yaml", include_str!("../../examples/demo/not-opted-in.yaml")),
    ("a step that wants one more secret", "step.yaml", include_str!("../../examples/demo/step.yaml")),
    ("a step that wants more power", "more-power.yaml", include_str!("../../examples/demo/more-power.yaml")),
    ("a step with a typing error", "typo.yaml", include_str!("../../examples/demo/typo.yaml")),
];

const NAMESPACE: &str = "ci";

/// Runs `demo`.
pub(super) fn run(args: &Args) -> Result<Outcome, CliError> {
    start::show(show(args.keep))
}

async fn show(keep: bool) -> Result<Outcome, CliError> {
    let folder = tempfile::Builder::new().prefix("podlayer-demo-").tempdir();
    let folder = folder.map_err(|error| CliError::because("failed to make a folder", error))?.keep();
    let authority = write_files(&folder)?;
    let snapshot = Arc::new(LayerFiles::read(&[folder.join("layers")], names::NAMESPACE)?.snapshot()?);
    let policy = Arc::new(Policy::default());

    let metrics = Metrics::new();
    let files = Files { certificate: folder.join("tls.crt"), key: folder.join("tls.key") }.load(metrics.clone());
    let files = files.map_err(|error| CliError::because("failed to read the certificate", error))?;
    let tls =
        server::server_config(files.serving()).map_err(|error| CliError::because("failed to set up TLS", error))?;
    let fail = |error| CliError::because("failed to start", error);
    let listener = server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.map_err(fail)?;
    let address = listener.local_addr().map_err(|error| CliError::because("failed to start", error))?;
    let (_sender, snapshots) = watch::channel(Some(snapshot.clone()));
    let handler = Handler { snapshots, policy: policy.clone(), metrics: metrics.clone() };
    let router = server::with_fallbacks(handler.router(), "POST /mutate, POST /validate");
    let drain = Drain::new();
    let serving = tokio::spawn(server::serve(listener, tls, router, Limits::default(), drain, metrics));

    let api_server = Loopback::new(address, &authority)?;
    let mut out = format!(
        "podlayer serves https://{address}{} with one default layer, as an API server would call it:\n",
        names::PATH_MUTATE
    );
    for (at, (about, file, text)) in PODS.iter().enumerate() {
        let object = Object::read(text, file)?;
        let answer = api_server.post(names::PATH_MUTATE, &review(&object.json)).await?;
        let _ = write!(out, "{}. {about} ({file}): ", at + 1);
        out.push_str(&tell(&object, &answer, &snapshot, &policy)?);
    }
    let shown = folder.display();
    let _ = write!(
        out,
        "Try your own: edit {shown}/step.yaml, then\n  podlayer render -f {shown}/step.yaml --layers {shown}/layers -o explain\n"
    );
    let outcome = print(&out)?;
    if keep {
        note(&format!("still serving https://{address}, its CA is {shown}/ca.crt; Ctrl-C ends it"));
        // Nothing more to do when the signal can't be waited for: the demo ends.
        let _ = tokio::signal::ctrl_c().await;
    }
    serving.abort();
    Ok(outcome)
}

/// Writes layers, pods and certificates; gives the CA.
fn write_files(folder: &Path) -> Result<String, CliError> {
    let now = OffsetDateTime::now_utc();
    let fail = |error| CliError::because("failed to make certificates", error);
    let authority = Authority::new(now).map_err(fail)?;
    let leaf = authority.leaf(&["localhost".into()], &[IpAddr::from(Ipv4Addr::LOCALHOST)], now).map_err(fail)?;
    fs::create_dir(folder.join("layers")).map_err(|error| CliError::file("make", &folder.join("layers"), error))?;
    let layer = Path::new("layers").join(LAYER.0);
    let mut files: Vec<(PathBuf, &str, u32)> = vec![
        (layer, LAYER.1, 0o644),
        ("ca.crt".into(), authority.certificate(), 0o644),
        ("tls.crt".into(), &leaf.certificate, 0o644),
        ("tls.key".into(), &leaf.key, 0o600),
    ];
    files.extend(PODS.iter().map(|(_, file, text)| (PathBuf::from(file), *text, 0o644)));
    for (file, text, mode) in files {
        let path = folder.join(file);
        certs::write(&path, text, mode).map_err(|error| CliError::file("write", &path, error))?;
    }
    Ok(authority.certificate().to_owned())
}

/// What the API server sends when somebody creates a pod.
fn review(pod: &Json) -> Vec<u8> {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let request = json!({
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800011", "kind": kind, "namespace": NAMESPACE, "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "object": pod, "oldObject": null, "dryRun": false,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}, "userInfo": {"username": "demo"},
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string().into_bytes()
}

/// What an answer did to a pod: the text for it.
fn tell(object: &Object, answer: &Json, snapshot: &Snapshot, policy: &Policy) -> Result<String, CliError> {
    let response = &answer["response"];
    if response["allowed"] != true {
        let (code, message) = (&response["status"]["code"], response["status"]["message"].as_str().unwrap_or_default());
        return Ok(format!("refused with {code}\n   {message}\n"));
    }
    let Some(patch) = response["patch"].as_str() else { return Ok("untouched\n".into()) };
    let fail = |error: String| CliError::new(format!("failed to apply the answer's patch: {error}"));
    let patch = STANDARD.decode(patch).map_err(|error| fail(error.to_string()))?;
    let operations: json_patch::Patch = serde_json::from_slice(&patch).map_err(|error| fail(error.to_string()))?;
    // What the API server does with it; that it can be done is part of the show.
    let mut patched = object.json.clone();
    json_patch::patch(&mut patched, &operations).map_err(|error| fail(error.to_string()))?;

    let text = object.pod_text()?;
    let explanation = trace(&object.pod(&text)?, NAMESPACE, snapshot, policy, Explanation::of);
    let lines = explanation.map(|explanation| explanation.to_text()).unwrap_or_default();
    let mut out = format!("{} operations, the stamp among them\n", operations.0.len());
    lines.lines().for_each(|line| _ = writeln!(out, "   {line}"));
    // The stamp's operation is left out of the line: it says what the lines above say.
    let layers: Vec<&json_patch::PatchOperation> =
        operations.0.iter().filter(|op| op.path().to_string().starts_with("/spec")).collect();
    let shown = serde_json::to_string(&layers).map_err(|error| fail(error.to_string()))?;
    let _ = writeln!(out, "   {shown}");
    Ok(out)
}
