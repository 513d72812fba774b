//! `azure setup` on a real control plane, with the real helm and pods that kwok runs. Ingress controller, cert-manager and
//! the command line of Azure are played: they would need a cloud.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Command,
    sync::Once,
    thread,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    controlplane::{ControlPlane, project_root},
    crds, helm,
    kwok::Kwok,
    program::{Files, Run, SECRET, command, run},
};

const NAME: &str = "agents.westeurope.cloudapp.azure.com";
const ADDRESS: &str = "192.0.2.7";

struct Cluster {
    plane: &'static ControlPlane,
    files: Files,
    own: String,
    agents: String,
}

impl Cluster {
    /// A control plane with what podlayer doesn't install.
    fn new() -> Self {
        static ONCE: Once = Once::new();
        let plane = ControlPlane::shared();
        ONCE.call_once(|| {
            Kwok::shared().node(plane, "setup", 64);
            crds::install();
            let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "test"},
                               "spec": {"controller": "example.com/none"}});
            plane.apply(&class.to_string());
        });
        let files = Files::new();
        // It knows one public address and says what it was asked.
        let az = files.write(
            "az",
            &format!(
                "#!/bin/sh\necho \"$@\" >> '{}'\ncase \"$3\" in list) echo /subscriptions/s/ip;; update) echo {NAME};; esac\n",
                files.path("az.log").display()
            ),
        );
        fs::set_permissions(az, fs::Permissions::from_mode(0o755)).unwrap();
        Self { plane, files, own: plane.namespace("podlayer"), agents: plane.namespace("agents") }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let secret = self.files.secret();
        let all = ["setup", "-s", &secret, "-d", NAME, "-n", &self.agents, "--own-namespace", &self.own];
        let all =
            [&all[..], &["--timeout-seconds", "120", "--kubeconfig", self.plane.kubeconfig()], arguments].concat();
        let mut command = command(&all);
        let helm = helm::binary();
        let path = format!("{}:{}", self.files.path("").display(), helm.parent().unwrap().display());
        command.env("PATH", path).env("HOME", self.files.path("home"));
        command
    }

    fn setup(&self, arguments: &[&str]) -> Run {
        run(&mut self.command(arguments))
    }

    /// Once `kind` is there, its status becomes this, as its controller would write it.
    fn play(&self, kind: &str, status: Value) -> thread::JoinHandle<()> {
        let (plane, kind, own) = (self.plane, kind.to_owned(), self.own.clone());
        thread::spawn(move || {
            let until = Instant::now() + Duration::from_secs(120);
            let patch = json!({"status": status}).to_string();
            let arguments =
                ["patch", &kind, "podlayer-azure", "-n", &own, "--subresource=status", "--type=merge", "-p", &patch];
            while !plane.kubectl(&arguments).ok {
                assert!(Instant::now() < until, "there is no {kind}");
                thread::sleep(Duration::from_millis(200));
            }
        })
    }
}

/// P11: the original can't be installed since Kubernetes 1.22, which has none of its versions any more.
#[test]
fn p11_all_of_it_is_installed_on_an_api_server_of_today_and_a_second_run_changes_nothing() {
    let cluster = Cluster::new();
    let (plane, own, agents) = (cluster.plane, &cluster.own, &cluster.agents);
    let ingress = cluster.play("ingress", json!({"loadBalancer": {"ingress": [{"ip": ADDRESS}]}}));
    let ready = json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "up to date",
                                       "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    let certificate = cluster.play("certificates.cert-manager.io", ready);
    let arguments = ["-u", "true", "--ingress-class", "test", "--dns", "az", "--image", "podlayer"];
    let first = cluster.setup(&arguments);
    assert_eq!((first.code, first.stderr.as_str()), (0, ""), "{}", first.stdout);
    ingress.join().unwrap();
    certificate.join().unwrap();
    let wanted = |made: &str, secret: &str| {
        format!(
            "the cluster has: Kubernetes 1.30 or later; the IngressClass test; cert-manager (cert-manager.io/v1)\n\
             namespace {agents}: {made}\n\
             Secret {agents}/azurepipelines, key VSTS_SECRET: {secret}\n\
             chart podlayer: installed\n\
             AgentPool {agents}/azure: ISN'T THERE, make it (docs/azure-setup.md has one to start from)\n\
             chart podlayer-ingress: installed\n\
             address: {ADDRESS}\n\
             {NAME}: bound to {ADDRESS} by az\n\
             certificate: ready\n\
             register it: podlayer azure register --uri https://dev.azure.com/ORGANISATION --pool azure --dns-name {NAME} \
             --shared-secret-file FILE --target-size COUNT\n"
        )
    };
    assert_eq!(first.stdout, wanted("was there", "written"));
    let asked = fs::read_to_string(cluster.files.path("az.log")).unwrap();
    let wanted_of_az = format!(
        "network public-ip list --query [?ipAddress=='{ADDRESS}'].id --output tsv\n\
         network public-ip update --ids /subscriptions/s/ip --dns-name agents --query dnsSettings.fqdn --output tsv\n"
    );
    assert_eq!(asked, wanted_of_az);
    let secret = plane.get_json(&["secret", "azurepipelines", "-n", agents]);
    assert_eq!(secret["data"]["VSTS_SECRET"], json!(STANDARD.encode(SECRET)), "without the newline");
    let deployment = plane.get_json(&["deployment", "podlayer-azure", "-n", own]);
    assert_eq!(deployment["status"]["readyReplicas"], 2);
    let arguments_of_it = deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string();
    assert!(arguments_of_it.contains(&format!("--default-pool={agents}/azure")), "{arguments_of_it}");
    let rule = &plane.get_json(&["ingress", "podlayer-azure", "-n", own])["spec"]["rules"][0];
    assert_eq!(rule["host"], NAME);
    // The Service that it leads to is the endpoint's.
    let backend = rule["http"]["paths"][0]["backend"]["service"]["name"].as_str().unwrap();
    let slices = format!("kubernetes.io/service-name={backend}");
    let slices = plane.get_json(&["endpointslices", "-n", own, "-l", &slices]);
    assert_eq!(slices["items"][0]["endpoints"].as_array().map(Vec::len), Some(2), "{slices}");
    assert_eq!(slices["items"][0]["ports"][0]["port"], 8081);

    // The pool that the page starts from, and one that was imported.
    let page = fs::read_to_string(project_root().join("docs/azure-setup.md")).unwrap();
    let shown = page.split("cat > pool.yaml <<'EOF'\n").nth(1).and_then(|rest| rest.split("EOF\n").next()).unwrap();
    let mut pool: Value = serde_yaml::from_str(shown).unwrap();
    pool["metadata"] = json!({"name": "azure"});
    let pool = cluster.files.write("pool.json", &pool.to_string());
    imported_is_taken(plane, agents);
    let second = cluster.setup(&[&arguments[..], &["--pool-file", &pool]].concat());
    assert_eq!((second.code, second.stderr.as_str()), (0, ""), "{}", second.stdout);
    let there = wanted("was there", "holds it already");
    let there = there.replace("ISN'T THERE, make it (docs/azure-setup.md has one to start from)", "applied");
    assert_eq!(second.stdout, there);
    assert_eq!(plane.get_json(&["agentpool", "azure", "-n", agents])["spec"]["mode"], "Agents");

    // The secret is never changed by the way.
    cluster.files.write("secret", "another-secret-0123");
    let other = cluster.setup(&arguments);
    let wanted = format!("the Secret {agents}/azurepipelines holds another shared secret in VSTS_SECRET");
    assert!(other.code == 2 && other.stderr.contains(&wanted), "{}", other.stderr);
    // Nor is another pool's endpoint taken away.
    cluster.files.write("secret", SECRET);
    let taken = cluster.setup(&[&arguments[..], &["--pool", "other"]].concat());
    let wanted = format!("the release podlayer has {agents}/azure as azure.defaultPool");
    assert!(taken.code == 2 && taken.stderr.contains(&wanted), "{}", taken.stderr);
    for release in ["podlayer", "podlayer-ingress"] {
        let gone = helm::run(plane.kubeconfig(), &["uninstall", release, "-n", own], &Value::Null);
        assert!(gone.ok, "{}", gone.stderr);
    }
}

/// `import azure-pool` writes what the API server takes.
fn imported_is_taken(plane: &ControlPlane, namespace: &str) {
    let old = format!(
        "{{apiVersion: dev.azure.com/v1alpha1, kind: AzurePipelinesPool, metadata: {{name: old, namespace: {namespace}}}, \
         spec: {{controllerImage: \"x:1\", buildkitReplicas: 2, agentPools: [\
         {{name: linux, spec: {{containers: [{{name: agent, image: \"a:1\"}}]}}}}, \
         {{name: other, spec: {{containers: [{{name: agent, image: \"a:2\"}}]}}}}]}}}}"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("old.yaml");
    fs::write(&file, old).unwrap();
    let imported =
        Command::new(env!("CARGO_BIN_EXE_podlayer")).args(["import", "azure-pool"]).arg(&file).output().unwrap();
    let manifest = String::from_utf8(imported.stdout).unwrap();
    let taken = plane.kubectl_in(&["apply", "--dry-run=server", "--validate=strict", "-f", "-"], &manifest);
    assert!(taken.ok && !taken.stderr.to_lowercase().contains("warning"), "{}\n{manifest}", taken.stderr);
}

#[test]
fn what_the_cluster_lacks_is_named_before_anything_is_made() {
    let cluster = Cluster::new();
    for (arguments, wanted) in [
        (
            &["-u", "true", "--ingress-class", "nginx"][..],
            "the cluster has no IngressClass nginx (but test): install an ingress controller, or name its class with \
             --ingress-class",
        ),
        (&["-u", "true"], "the cluster has no default IngressClass (but test)"),
        (
            &["-u", "true", "--gateway-class", "none"],
            "the cluster has no GatewayClass none: install a controller of Gateway API",
        ),
        (&["--gateway", "infra/main"], "the cluster has no Gateway infra/main: name one that is there"),
        (&["--ingress-class", "test", "--tls-secret", "none"], "none of type kubernetes.io/tls: make it"),
    ] {
        let run = cluster.setup(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(run.stderr.contains(wanted), "{arguments:?}: {}", run.stderr);
    }
    let secret = cluster.plane.kubectl(&["get", "secret", "azurepipelines", "-n", &cluster.agents]);
    assert!(!secret.ok, "nothing was written");
}
