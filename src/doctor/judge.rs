//! From what was seen to what is wrong. Pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Selector, SelectorExt};
use rustls::pki_types::{CertificateDer, pem::PemObject};

use super::{
    facts::{Configuration, Facts, Hook, Labels, LostSecrets, Probe, Replica, Service},
    finding::{Code, Finding},
};
use crate::{certs::expiry, names};

/// From when on the end of a certificate is told: two weeks, so that somebody is there to do something about it.
const SOON: i64 = 14 * 86_400;

/// How many names of pods are told at most.
const MOST_NAMES: usize = 5;

/// All that is wrong, the worst first.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    configurations(facts, &mut findings);
    probe(facts, &mut findings);
    facts.services.iter().for_each(|service| replicas(facts, service, &mut findings));
    layers(facts, &mut findings);
    pods(facts, &mut findings);
    findings.sort_by_key(|finding| (finding.severity, finding.code));
    findings.dedup();
    findings
}

fn not_checked(what: &str, why: &str) -> Finding {
    Code::NotChecked.found(format!("{what}: not checked, {why}"), "kubectl auth can-i --list")
}

fn not_allowed(what: &str, why: &str) -> Finding {
    Code::NotAllowed.found(format!("{what}: not checked, {why}; ask somebody who may"), "kubectl auth can-i --list")
}

fn configurations(facts: &Facts, findings: &mut Vec<Finding>) {
    let Facts { configuration: name, namespace, .. } = facts;
    let install = format!("helm upgrade --install podlayer charts/podlayer -n {namespace}");
    let kinds = [
        ("MutatingWebhookConfiguration", &facts.mutating, Code::ConfigurationMissing, "no pod gets its layers"),
        (
            "ValidatingWebhookConfiguration",
            &facts.validating,
            Code::ValidationMissing,
            "bad layers and bad Jobs are not refused where they are written",
        ),
    ];
    for (kind, seen, code, means) in kinds {
        match seen {
            Err(why) => findings.push(not_allowed(kind, why)),
            Ok(None) => {
                findings.push(code.found(format!("there is no {kind} {name:?}: {means}"), install.clone()));
            }
            Ok(Some(configuration)) => {
                let kind = kind.to_lowercase();
                configuration.hooks.iter().for_each(|hook| certificates(facts, &kind, hook, findings));
            }
        }
    }
    let Ok(Some(mutating)) = &facts.mutating else { return };
    if pod_hook(mutating).is_none() {
        let text = format!("MutatingWebhookConfiguration {name:?} has no entry for pods: no pod gets its layers");
        findings.push(Code::EntryMissing.found(text, install));
    }
    for hook in &mutating.hooks {
        selectors(facts, hook, findings);
    }
}

fn pod_hook(configuration: &Configuration) -> Option<&Hook> {
    configuration.hooks.iter().find(|hook| hook.resources.iter().any(|resource| resource == "pods"))
}

fn certificates(facts: &Facts, kind: &str, hook: &Hook, findings: &mut Vec<Finding>) {
    let entry = format!("entry {:?} of {kind} {:?}", hook.name, facts.configuration);
    let logs = format!("kubectl logs -n {} -l app.kubernetes.io/name=podlayer --tail=100", facts.namespace);
    let show = format!(
        "kubectl get {kind} {} -o jsonpath='{{.webhooks[*].clientConfig.caBundle}}' | base64 -d | openssl x509 -noout -dates",
        facts.configuration
    );
    if hook.ca_bundle.is_empty() {
        let text = format!("{entry} has no caBundle: the API server trusts no certificate of podlayer's");
        return findings.push(Code::CaMissing.found(text, logs));
    }
    let read: Result<Vec<CertificateDer<'static>>, _> = CertificateDer::pem_slice_iter(&hook.ca_bundle).collect();
    let ends: Option<Vec<i64>> = read.ok().and_then(|certificates| {
        certificates.iter().map(|der| expiry::not_after(der).map(|end| end.unix_timestamp())).collect()
    });
    let Some(last) = ends.as_ref().and_then(|ends| ends.iter().max()) else {
        let text = format!("the caBundle of {entry} is no PEM certificate: the API server can't call podlayer");
        return findings.push(Code::CaUnreadable.found(text, logs));
    };
    let days = (last - facts.now) / 86_400;
    if *last <= facts.now {
        let text = format!("the caBundle of {entry} expired {} days ago: the API server can't call podlayer", -days);
        findings.push(Code::CaExpired.found(text, show));
    } else if last - facts.now < SOON {
        findings.push(Code::CaExpiresSoon.found(format!("the caBundle of {entry} ends in {days} days"), show));
    }
}

/// Whether an entry is asked about objects in a namespace with these labels; yes where its selector can't be read.
fn covers(hook: &Hook, labels: &Labels) -> bool {
    let selector = hook.namespaces.clone().map(Selector::try_from);
    selector.is_none_or(|selector| selector.is_ok_and(|selector| selector.matches(labels)))
}

fn selectors(facts: &Facts, hook: &Hook, findings: &mut Vec<Finding>) {
    let edit = format!("kubectl get mutatingwebhookconfiguration {} -o yaml", facts.configuration);
    for namespace in [facts.namespace.as_str(), "kube-system"] {
        let Some(Ok(labels)) = facts.namespaces.get(namespace) else { continue };
        if covers(hook, labels) {
            let text = format!(
                "entry {:?} covers the namespace {namespace}: while podlayer is down its own or the cluster's pods may not start; \
                 leave it out by the namespaceSelector",
                hook.name
            );
            findings.push(Code::SelectorWide.found(text, edit.clone()));
        }
    }
    if !hook.has_condition {
        let text = format!(
            "entry {:?} asks podlayer about objects that are not opted in; it needs a matchCondition on the label {}",
            hook.name,
            names::ENABLED
        );
        findings.push(Code::NotOptedIn.found(text, edit));
    }
}

fn probe(facts: &Facts, findings: &mut Vec<Finding>) {
    let Ok(Some(mutating)) = &facts.mutating else { return };
    let namespace = &facts.probe_namespace;
    let logs = format!("kubectl logs -n {} -l app.kubernetes.io/name=podlayer --tail=100", facts.namespace);
    let hook = pod_hook(mutating);
    if let (Some(hook), Some(Ok(labels))) = (hook, facts.namespaces.get(namespace))
        && !covers(hook, labels)
    {
        let text = format!("podlayer is not asked about pods in the namespace {namespace}, so none was tried there");
        return findings.push(Code::ProbeOutside.found(text, "podlayer doctor --probe-namespace NAMESPACE"));
    }
    match &facts.probe {
        None => {}
        Some(Err(why)) => findings.push(not_allowed("a pod tried in a dry run", why)),
        Some(Ok(Probe::Refused(message))) => {
            let (means, fix) = refusal(facts, message);
            let text = format!("the API server would not make an opted-in pod in {namespace}: {message}; {means}");
            findings.push(Code::ProbeRefused.found(text, fix));
        }
        Some(Ok(Probe::Made { stamp: None, warnings })) => {
            let why = match hook {
                Some(hook) if hook.fails_open => {
                    "the call to podlayer failed and its failurePolicy Ignore let the pod pass"
                }
                _ => "podlayer was not asked",
            };
            let said = if warnings.is_empty() { String::new() } else { format!(" ({})", warnings.join("; ")) };
            let text = format!("an opted-in pod in {namespace} would be made without its layers: {why}{said}");
            findings.push(Code::ProbeUnstamped.found(text, logs));
        }
        Some(Ok(Probe::Made { stamp: Some(stamp), .. })) => {
            let stamp: serde_json::Value = serde_json::from_str(stamp).unwrap_or_default();
            if stamp["audit"] == true {
                let text = "podlayer runs with --mode=Audit: it decides and tells, but changes no pod";
                findings.push(Code::AuditMode.found(text, "helm upgrade … --set mode=Enforce"));
            }
        }
    }
}

/// What a refusal of the API server most likely means, and what to do.
fn refusal(facts: &Facts, message: &str) -> (&'static str, String) {
    let namespace = &facts.namespace;
    let has = |word: &str| message.contains(word);
    if has("x509") || has("certificate") || has("unable to parse bytes as PEM block") {
        let fix = format!("kubectl logs -n {namespace} -l app.kubernetes.io/name=podlayer --tail=100");
        ("the caBundle does not hold the CA of the certificate that podlayer serves", fix)
    } else if has("not found") && has("service") {
        ("the Service is not there", format!("kubectl get service -n {namespace}"))
    } else if has("connection refused") || has("no endpoints") {
        ("no replica answers", format!("kubectl get pods -n {namespace} -o wide"))
    } else if has("deadline exceeded") || has("timeout") || has("no route to host") {
        let fix = format!("kubectl get service,endpointslices,networkpolicy -n {namespace}");
        ("the API server does not reach podlayer's port: a firewall or network policy is in between", fix)
    } else {
        (
            "try one yourself",
            "kubectl run probe --image=busybox -l podlayer.dev/enabled=true --dry-run=server -o yaml".into(),
        )
    }
}

fn replicas(facts: &Facts, service: &Service, findings: &mut Vec<Finding>) {
    let Service { namespace, name, replicas } = service;
    let pods = format!("kubectl get pods -n {namespace} -o wide");
    let replicas = match replicas {
        Err(why) => return findings.push(not_checked(&format!("the replicas of Service {namespace}/{name}"), why)),
        Ok(None) => {
            let text = format!("the Service {namespace}/{name} is not there: the API server can't call podlayer");
            let fix = format!("helm upgrade --install podlayer charts/podlayer -n {}", facts.namespace);
            return findings.push(Code::ServiceMissing.found(text, fix));
        }
        Ok(Some(replicas)) => replicas,
    };
    let ready = replicas.iter().filter(|replica| replica.ready).count();
    match (ready, replicas.len()) {
        (0, count) => {
            let text = format!("none of {count} replicas behind Service {namespace}/{name} is ready");
            findings.push(Code::ReplicasMissing.found(text, format!("kubectl describe pods -n {namespace}")));
        }
        (1, 1) => {
            let text = "there is one replica only: pods miss their layers, or wait, while it is moved".to_owned();
            findings.push(
                Code::ReplicaAlone
                    .found(text, format!("kubectl scale deployment -n {namespace} podlayer --replicas=2")),
            );
        }
        _ => {}
    }
    for replica in replicas.iter().filter(|replica| !replica.ready && ready > 0) {
        let fix = format!("kubectl describe pod -n {namespace} {}", replica.pod);
        findings.push(Code::ReplicaUnready.found(format!("replica {} is not ready", replica.pod), fix));
    }
    agreement(namespace, replicas, &pods, findings);
    for replica in replicas {
        told(facts, namespace, replica, findings);
    }
}

/// Whether replicas agree, as far as they could be asked.
fn agreement(namespace: &str, replicas: &[Replica], pods: &str, findings: &mut Vec<Finding>) {
    let mut hashes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for replica in replicas {
        match &replica.page {
            Ok(page) => {
                let hash = page.snapshot.as_ref().map_or("none", |snapshot| &snapshot.hash);
                hashes.entry(hash).or_default().push(&replica.pod);
                versions.entry(&page.version).or_default().push(&replica.pod);
            }
            Err(why) => {
                let what = format!("what replica {} has in force", replica.pod);
                let fix = format!("kubectl port-forward -n {namespace} {} {}", replica.pod, names::PORT_ADMIN);
                findings.push(Finding { fix, ..not_checked(&what, why) });
            }
        }
    }
    let list = |groups: &BTreeMap<&str, Vec<&str>>| {
        groups.iter().map(|(what, pods)| format!("{what} in {}", pods.join(", "))).collect::<Vec<_>>().join("; ")
    };
    if hashes.len() > 1 {
        let text = format!("the replicas do not agree on the layers: {}; some do not hear of changes", list(&hashes));
        findings.push(
            Code::SnapshotsDiffer.found(text, format!("kubectl rollout restart deployment -n {namespace} podlayer")),
        );
    }
    if versions.len() > 1 {
        let text =
            format!("the replicas are of different versions: {}; a rollout is under way or stuck", list(&versions));
        findings.push(Code::VersionsDiffer.found(text, pods));
    }
}

/// What a replica tells about its layers and its certificate.
fn told(facts: &Facts, namespace: &str, replica: &Replica, findings: &mut Vec<Finding>) {
    if let Some(end) = replica.certificate_ends.filter(|end| end - facts.now < SOON) {
        let days = (end - facts.now) / 86_400;
        let text = format!("the certificate that replica {} serves ends in {days} days", replica.pod);
        let fix = format!("kubectl logs -n {namespace} {} --tail=100", replica.pod);
        findings.push(Code::CertificateExpiresSoon.found(text, fix));
    }
    for layer in replica.page.iter().flat_map(|page| &page.layers) {
        let name = layer.source.rsplit([' ', '/']).next().unwrap_or_default();
        let lint = format!("kubectl get configmap -n {namespace} {name} -o yaml | podlayer lint -");
        let problem = layer.problem.lines().next().unwrap_or_default();
        match layer.state.as_str() {
            "bad" => findings.push(bad_layer(&layer.source, problem, lint)),
            "stale" => {
                let text =
                    format!("{} is in force in its last good version, the newest is bad: {problem}", layer.source);
                findings.push(Code::LayerStale.found(text, lint));
            }
            "missing" => {
                let text = format!("{} is expected and not there", layer.source);
                findings.push(
                    Code::LayerMissing.found(text, format!("kubectl get configmap -n {namespace} -l {}", names::LAYER)),
                );
            }
            _ => {}
        }
    }
}

fn bad_layer(source: &str, problem: &str, fix: String) -> Finding {
    Code::LayerBad.found(format!("{source} is bad and not in force: {problem}"), fix)
}

/// The layers as they are written, where no replica could tell how they stand.
fn layers(facts: &Facts, findings: &mut Vec<Finding>) {
    let asked = facts.services.iter().flat_map(|service| service.replicas.iter().flatten().flatten());
    if asked.filter(|replica| replica.page.is_ok()).count() > 0 {
        return;
    }
    match &facts.layers {
        Err(why) => findings.push(not_checked("the layers", why)),
        Ok(bad) => findings.extend(bad.iter().map(|(name, problem)| {
            let fix = format!("kubectl get configmap -n {} {name} -o yaml | podlayer lint -", facts.namespace);
            let text = format!(
                "ConfigMap {}/{name} can't be read: {problem}; its last good version is in force, if any",
                facts.namespace
            );
            Code::LayerBad.found(text, fix)
        })),
    }
}

fn pods(facts: &Facts, findings: &mut Vec<Finding>) {
    let since = facts.mutating.as_ref().ok().and_then(|found| found.as_ref()).map_or(i64::MAX, |found| found.since);
    match &facts.pods {
        Err(why) => findings.push(not_checked("opted-in pods", why)),
        Ok(pods) => {
            let mut by_namespace: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            // Those that are older than the configuration couldn't have been asked about.
            for (namespace, name, _) in pods.unstamped.iter().filter(|(_, _, made)| *made >= since) {
                by_namespace.entry(namespace).or_default().insert(name);
            }
            for (namespace, names) in by_namespace {
                let shown: Vec<&str> = names.iter().copied().take(MOST_NAMES).collect();
                let more = if names.len() > shown.len() { ", …" } else { "" };
                let text = format!(
                    "{} opted-in pods in {namespace} were made without podlayer, they lack its stamp: {}{more}",
                    names.len(),
                    shown.join(", ")
                );
                findings.push(
                    Code::PodUnstamped.found(text, format!("kubectl delete pod -n {namespace} {}", shown.join(" "))),
                );
            }
            if !pods.own.is_empty() {
                let text = format!(
                    "pods that podlayer should change run in its own namespace {} ({}): they are left out, \
                     and who may write ConfigMaps for them may write layers for the whole cluster",
                    facts.namespace,
                    pods.own.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ")
                );
                let fix = "helm upgrade --install podlayer charts/podlayer -n podlayer --create-namespace";
                findings.push(Code::NamespaceShared.found(text, fix));
            }
        }
    }
    match &facts.jobs {
        Err(why) => findings.push(not_checked("Jobs without pods", why)),
        Ok(jobs) => findings.extend(jobs.iter().map(|job| {
            let text = format!("Job {}/{} has no pods: {}", job.namespace, job.name, job.message);
            Code::JobRefused.found(text, format!("kubectl delete job -n {} {}", job.namespace, job.name))
        })),
    }
    findings.extend(facts.lost_secrets.iter().map(|LostSecrets { namespace, pod, secrets }| {
        let text = format!(
            "pod {namespace}/{pod} names imagePullSecrets that its kubelet didn't find: {secrets}; its images are pulled \
             without, make them there or take them out of the layer that names them"
        );
        Code::PullSecretMissing.found(text, format!("kubectl get secrets -n {namespace}"))
    }));
}

#[cfg(test)]
mod tests;
