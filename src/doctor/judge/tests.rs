use time::{Duration, OffsetDateTime};

use super::{
    super::{
        facts::{LostSecrets, Page, Pods, RefusedJob, Seen},
        finding::Severity,
    },
    *,
};

fn ca(days: i64) -> Vec<u8> {
    let mut params = rcgen::CertificateParams::new(vec!["ca.example".to_owned()]).unwrap();
    params.not_after = OffsetDateTime::now_utc() + Duration::days(days);
    params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem().into_bytes()
}

fn hook(resource: &str) -> Hook {
    Hook {
        name: format!("{resource}.podlayer.dev"),
        resources: vec![resource.to_owned()],
        service: Some(("podlayer".into(), "podlayer".into())),
        ca_bundle: ca(365),
        fails_open: true,
        namespaces: Some(
            serde_json::from_value(serde_json::json!({"matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["podlayer", "kube-system"]}]}))
            .unwrap(),
        ),
        has_condition: true,
    }
}

/// As the admin port tells it.
const PAGE: &str = r#"{"version": "1", "snapshot": {"hash": "aaaa", "age_seconds": 5}, "layers": [{"source":
    "ConfigMap podlayer/base", "layer": "default/base", "state": "good", "hash": "cccc", "used": 7}]}"#;

fn replica(pod: &str) -> Replica {
    Replica { pod: pod.into(), ready: true, page: Ok(serde_json::from_str(PAGE).unwrap()), certificate_ends: None }
}

fn healthy() -> Facts {
    let labels = |name: &str| Ok(Labels::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())]));
    let names = ["podlayer", "kube-system", "default"];
    Facts {
        now: OffsetDateTime::now_utc().unix_timestamp(),
        namespace: "podlayer".into(),
        configuration: "zz-podlayer".into(),
        mutating: Ok(Some(Configuration { since: 100, hooks: vec![hook("pods"), hook("jobs")] })),
        validating: Ok(Some(Configuration { since: 100, hooks: vec![hook("configmaps")] })),
        namespaces: names.map(|name| (name.to_owned(), labels(name))).into(),
        probe_namespace: "default".into(),
        probe: Some(Ok(Probe::Made { stamp: Some("{\"v\":1}".into()), warnings: Vec::new() })),
        services: vec![Service {
            namespace: "podlayer".into(),
            name: "podlayer".into(),
            replicas: Ok(Some(vec![replica("a"), replica("b")])),
        }],
        layers: Ok(Vec::new()),
        pods: Ok(Pods::default()),
        jobs: Ok(Vec::new()),
        lost_secrets: Vec::new(),
    }
}

fn mutating(facts: &mut Facts) -> &mut Vec<Hook> {
    &mut facts.mutating.as_mut().unwrap().as_mut().unwrap().hooks
}

fn replicas(facts: &mut Facts) -> &mut Vec<Replica> {
    facts.services[0].replicas.as_mut().unwrap().as_mut().unwrap()
}

fn page(facts: &mut Facts) -> &mut Page {
    replicas(facts)[1].page.as_mut().unwrap()
}

fn line(state: &str) -> super::super::facts::Line {
    super::super::facts::Line { source: "ConfigMap podlayer/gpu".into(), state: state.into(), problem: "a\nb".into() }
}

#[test]
fn a_healthy_installation_has_no_findings() {
    assert_eq!(judge(&healthy()), []);
}

#[test]
fn each_fault_has_its_finding_and_no_other() {
    type Break = fn(&mut Facts);
    let denied = |seen: &mut Facts| seen.pods = Err("the right is missing: pods".into());
    let cases: &[(&[Code], Break)] = &[
        (&[Code::ConfigurationMissing], |facts| facts.mutating = Ok(None)),
        (&[Code::ValidationMissing], |facts| facts.validating = Ok(None)),
        (&[Code::NotAllowed], |facts| facts.mutating = Err("no".into())),
        (&[Code::EntryMissing], |facts| _ = mutating(facts).remove(0)),
        (&[Code::CaMissing], |facts| mutating(facts)[0].ca_bundle.clear()),
        (&[Code::CaUnreadable], |facts| mutating(facts)[1].ca_bundle = b"nonsense".to_vec()),
        (&[Code::CaExpired], |facts| mutating(facts)[0].ca_bundle = ca(-1)),
        (&[Code::CaExpiresSoon], |facts| mutating(facts)[0].ca_bundle = ca(3)),
        // The old CA stays beside the new one for a while.
        (&[], |facts| mutating(facts)[0].ca_bundle = [ca(-1), ca(300)].concat()),
        (&[Code::SelectorWide, Code::SelectorWide], |facts| mutating(facts)[0].namespaces = None),
        (&[Code::NotOptedIn], |facts| mutating(facts)[0].has_condition = false),
        (&[Code::ProbeOutside], |facts| {
            facts.probe_namespace = "kube-system".into();
            facts.probe = Some(Ok(Probe::Made { stamp: None, warnings: Vec::new() }));
        }),
        (&[Code::ProbeUnstamped], |facts| {
            facts.probe = Some(Ok(Probe::Made { stamp: None, warnings: vec!["w".into()] }))
        }),
        (&[Code::ProbeRefused], |facts| {
            facts.probe = Some(Ok(Probe::Refused("failed calling webhook: x509: …".into())))
        }),
        (&[Code::NotAllowed], |facts| facts.probe = Some(Err("no".into()))),
        (&[Code::AuditMode], |facts| {
            facts.probe = Some(Ok(Probe::Made { stamp: Some("{\"audit\":true}".into()), warnings: Vec::new() }));
        }),
        (&[Code::ServiceMissing], |facts| facts.services[0].replicas = Ok(None)),
        (&[Code::NotChecked], |facts| facts.services[0].replicas = Err("no".into())),
        (&[Code::ReplicasMissing], |facts| replicas(facts).clear()),
        (&[Code::ReplicasMissing], |facts| replicas(facts).iter_mut().for_each(|replica| replica.ready = false)),
        (&[Code::ReplicaUnready], |facts| replicas(facts)[0].ready = false),
        (&[Code::ReplicaAlone], |facts| replicas(facts).truncate(1)),
        (&[Code::NotChecked], |facts| replicas(facts)[0].page = Err("address not allowed".into())),
        (&[Code::SnapshotsDiffer], |facts| page(facts).snapshot.as_mut().unwrap().hash = "bbbb".into()),
        (&[Code::SnapshotsDiffer], |facts| page(facts).snapshot = None),
        (&[Code::VersionsDiffer], |facts| page(facts).version = "2".into()),
        (&[Code::CertificateExpiresSoon], |facts| replicas(facts)[0].certificate_ends = Some(facts_now() + 3600)),
        (&[Code::LayerBad], |facts| page(facts).layers.push(line("bad"))),
        (&[Code::LayerStale], |facts| page(facts).layers.push(line("stale"))),
        (&[Code::LayerMissing], |facts| page(facts).layers.push(line("missing"))),
        // What the replicas say counts; without them what stands in the ConfigMaps.
        (&[], |facts| facts.layers = Ok(vec![("gpu".into(), "bad".into())])),
        (&[Code::ServiceMissing, Code::LayerBad], |facts| {
            facts.services[0].replicas = Ok(None);
            facts.layers = Ok(vec![("gpu".into(), "bad".into())]);
        }),
        (&[Code::PodUnstamped], |facts| facts.pods.as_mut().unwrap().unstamped.push(("ci".into(), "p".into(), 200))),
        // Older than the configuration.
        (&[], |facts| facts.pods.as_mut().unwrap().unstamped.push(("ci".into(), "p".into(), 50))),
        (&[Code::NamespaceShared], |facts| facts.pods.as_mut().unwrap().own.push("p".into())),
        (&[Code::NotChecked], denied),
        (&[Code::PullSecretMissing], |facts| {
            let (namespace, pod, secrets) = ("ci".into(), "p".into(), "regcred".into());
            facts.lost_secrets.push(LostSecrets { namespace, pod, secrets });
        }),
        (&[Code::JobRefused], |facts| {
            facts.jobs = Ok(vec![RefusedJob { namespace: "ci".into(), name: "j".into(), message: "m".into() }]);
        }),
    ];
    for (at, (wanted, broken)) in cases.iter().enumerate() {
        let mut facts = healthy();
        broken(&mut facts);
        let findings = judge(&facts);
        let mut codes: Vec<Code> = findings.iter().map(|finding| finding.code).collect();
        let mut wanted = wanted.to_vec();
        codes.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(codes, wanted, "case {at}: {findings:#?}");
        for finding in &findings {
            assert!(!finding.fix.is_empty() && !finding.text.contains('\n'), "{finding:?}");
            assert!(["kubectl ", "helm ", "podlayer "].iter().any(|tool| finding.fix.starts_with(tool)), "{finding:?}");
        }
    }
}

fn facts_now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

#[test]
fn a_refusal_is_explained_by_what_the_api_server_says() {
    let facts = healthy();
    for (message, wanted) in [
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", "does not hold the CA"),
        ("dial tcp 127.0.0.1:9443: connect: connection refused", "no replica answers"),
        ("service \"podlayer\" not found", "the Service is not there"),
        ("context deadline exceeded", "a firewall or network policy"),
        ("something else", "try one yourself"),
    ] {
        assert!(refusal(&facts, message).0.contains(wanted), "{message}");
    }
}

#[test]
fn the_worst_comes_first_and_many_pods_are_one_finding() {
    let mut facts = healthy();
    facts.pods.as_mut().unwrap().unstamped = (0..20).map(|at| ("ci".into(), format!("p{at:02}"), 200)).collect();
    facts.mutating.as_mut().unwrap().as_mut().unwrap().hooks[0].ca_bundle.clear();
    facts.jobs = Seen::Err("no".into());
    let findings = judge(&facts);
    let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning, Severity::Info]);
    assert!(findings[1].text.starts_with("20 opted-in pods in ci") && findings[1].text.ends_with("p04, …"));
}
