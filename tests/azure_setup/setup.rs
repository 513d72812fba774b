//! `azure setup --dry-run`: everything that would be done, and what is refused before anything is.

use serde_json::{Value, json};

use crate::{
    helm,
    program::{Files, Run, command, run},
};

fn dry_run(files: &Files, more: &[&str]) -> Run {
    let secret = files.secret();
    let path = helm::binary().parent().unwrap().to_owned();
    let all = [&["setup", "--dry-run", "-s", &secret, "-d", "agents.example.com"], more].concat();
    run(command(&all).env("PATH", path))
}

#[test]
fn everything_that_it_would_do_is_printed() {
    let files = Files::new();
    let run =
        dry_run(&files, &["-u", "true", "--image", "registry.example.com/podlayer:1", "--ingress-class", "nginx"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let wanted = "\
1. look whether the cluster has: Kubernetes 1.30 or later; the IngressClass nginx; cert-manager (cert-manager.io/v1)
2. make the namespace azuredevops, if it isn't there
3. write the Secret azuredevops/azurepipelines, key VSTS_SECRET (the secret isn't shown); if it holds another one: stop
4. run: helm upgrade podlayer charts/podlayer --install --namespace podlayer --values podlayer.values.yaml --timeout 300s \
                  --create-namespace --reset-then-reuse-values --wait
   namespaces that the release serves already are added to those below
   with podlayer.values.yaml:
     azure:
       defaultPool: azuredevops/azure
       enabled: true
       namespaces:
       - azuredevops
     image:
       digest: ''
       repository: registry.example.com/podlayer
       tag: '1'
     pools:
       enabled: true
       namespaces:
       - azuredevops
5. look whether there is an AgentPool azuredevops/azure; if not, say so
6. run: helm upgrade podlayer-ingress charts/podlayer-ingress --install --namespace podlayer --values \
                  podlayer-ingress.values.yaml --timeout 300s --create-namespace
   with podlayer-ingress.values.yaml:
     dnsName: agents.example.com
     ingress:
       className: nginx
     kind: Ingress
     letsEncrypt:
       email: ''
       staging: false
     service:
       name: azure-pipelines-pool
       port: 80
     tls:
       mode: LetsEncrypt
       secretName: podlayer-azure-tls
7. wait up to 300 s for the address of the Ingress podlayer/podlayer-azure
8. say which record agents.example.com needs
9. wait up to 300 s for the Certificate podlayer/podlayer-azure
Then register it: podlayer azure register --uri https://dev.azure.com/ORGANISATION --pool azure --dns-name \
                  agents.example.com --shared-secret-file FILE --target-size COUNT

helm: ";
    assert!(run.stdout.starts_with(wanted), "{}", run.stdout);
    assert!(run.stdout.ends_with("/helm\n"), "{}", run.stdout);
}

#[test]
fn each_option_of_the_old_script_has_its_counterpart() {
    let files = Files::new();
    let made = rcgen::generate_simple_self_signed(vec!["agents.example.com".to_owned()]).unwrap();
    let certificate = files.write("tls.crt", &made.cert.pem());
    let key = files.write("tls.key", &made.signing_key.serialize_pem());
    let run = dry_run(&files, &["-u", "false", "-k", &key, "-c", &certificate, "-n", "agents"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for wanted in [
        format!("--set-file tls.certificate={certificate} --set-file tls.key={key}"),
        "mode: Files".to_owned(),
        "write the Secret agents/azurepipelines, key VSTS_SECRET".to_owned(),
        "defaultPool: agents/azure".to_owned(),
    ] {
        assert!(run.stdout.contains(&wanted), "{wanted} is not in {}", run.stdout);
    }
    assert!(!run.stdout.contains("PRIVATE KEY") && !run.stdout.contains("Certificate podlayer"), "{}", run.stdout);
    let help = crate::program::run(&mut command(&["setup", "-h"]));
    assert_eq!(help.code, 0);
    for short in ["-s, ", "-d, ", "-u, ", "-k, ", "-c, ", "-n, "] {
        assert!(help.stdout.contains(short), "{short}");
    }
}

#[test]
fn az_is_told_what_to_bind_and_missing_tools_are_named() {
    let files = Files::new();
    let secret = files.secret();
    let name = "agents.westeurope.cloudapp.azure.com";
    let all = ["setup", "--dry-run", "-s", &secret, "-d", name, "-u", "true", "--dns", "az", "--resource-group", "ci"];
    let run = run(command(&all).env("PATH", files.path("nowhere")));
    let wanted = r"8. run: az network public-ip list --resource-group ci --query '[?ipAddress=='\''ADDRESS'\''].id' --output tsv
   then: az network public-ip update --ids ID --dns-name agents --query dnsSettings.fqdn --output tsv
";
    assert!(run.stdout.contains(wanted), "{}", run.stdout);
    let wanted = "\nhelm isn't on the PATH: install it (https://helm.sh/docs/intro/install), or use --dry-run and do the steps \
                  yourself\naz isn't on the PATH: install it (https://learn.microsoft.com/cli/azure/install-azure-cli), or \
                  use --dry-run and do the steps yourself\n";
    assert!(run.stdout.ends_with(wanted), "{}", run.stdout);
    // Without --dry-run that is where it ends.
    let really: Vec<&str> = all.into_iter().filter(|word| *word != "--dry-run").collect();
    let really = crate::program::run(command(&really).env("PATH", files.path("nowhere")));
    assert!(really.code == 2 && really.stderr.contains("helm isn't on the PATH"), "{}", really.stderr);
}

#[test]
fn the_values_of_both_charts_are_written_where_one_wants_them() {
    let files = Files::new();
    let folder = files.path("values");
    let shown = folder.to_str().unwrap();
    let more =
        ["--gateway-class", "envoy", "-u", "true", "--lets-encrypt-staging", "--lets-encrypt-email", "ci@example.com"];
    let run = dry_run(&files, &[&more[..], &["--values-dir", shown]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let read =
        |name: &str| -> Value { serde_yaml::from_str(&std::fs::read_to_string(folder.join(name)).unwrap()).unwrap() };
    let ingress = read("podlayer-ingress.values.yaml");
    assert_eq!(ingress["gateway"]["className"], "envoy");
    assert_eq!(ingress["letsEncrypt"], json!({"staging": true, "email": "ci@example.com"}));
    // Both charts take them.
    for (chart, values) in [("podlayer-ingress", ingress), ("podlayer", read("podlayer.values.yaml"))] {
        let output = helm::run(
            "/dev/null",
            &["template", chart, &format!("charts/{chart}"), "-n", "podlayer", "--set", "image.repository=podlayer"]
                [..if chart == "podlayer" { 7 } else { 5 }],
            &values,
        );
        assert!(output.ok, "{chart}: {}", output.stderr);
    }
}

#[test]
fn what_does_not_go_together_is_told_and_the_reason_is() {
    let files = Files::new();
    let own = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (one, other) = (own("a.example.com"), own("b.example.com"));
    let certificate = files.write("tls.crt", &one.cert.pem());
    let other_key = files.write("other.key", &other.signing_key.serialize_pem());
    let pool = files.write("pool.yaml", "kind: AgentPool\nmetadata: {name: linux, namespace: ci}\n");
    let broken = files.write("broken.yaml", "a: [\n");
    let none = files.path("none").to_str().unwrap().to_owned();
    for (more, wanted) in [
        (&[][..], "one certificate is needed: -u true for Let's Encrypt"),
        (&["-u", "true", "--tls-secret", "tls"], "one certificate is needed"),
        (&["-u", "maybe"], "invalid value 'maybe'"),
        (&["-c", &certificate], "--tls-key <FILE>"),
        (&["-c", &certificate, "-k", &none], "failed to read"),
        (&["-c", &certificate, "-k", &other_key], "the key doesn't belong to the certificate"),
        (&["-c", &other_key, "-k", &other_key], "the certificate has no block \"BEGIN CERTIFICATE\""),
        (
            &["-u", "true", "-n", "podlayer"],
            "the pool is in podlayer's own namespace podlayer, where pods get no layers",
        ),
        (&["-u", "true", "-n", "Upper"], "names no AgentPool"),
        (&["-u", "true", "--dns", "az"], "--dns az binds names such as LABEL.REGION.cloudapp.azure.com"),
        (&["-u", "true", "--gateway", "infra/main"], "one certificate is needed"),
        (&["-u", "true", "--ingress-class", "a", "--gateway-class", "b"], "cannot be used with"),
        (&["-u", "true", "--image", "podlayer:"], "is no image; write REPOSITORY"),
        (&["-u", "true", "--pool-file", &pool], "is of AgentPool ci/linux, not of the AgentPool azuredevops/azure"),
        (&["-u", "true", "-n", "ci", "--pool", "linux", "--pool-file", &broken], "failed to read"),
        (&["-u", "true", "-n", "ci", "--pool", "linux", "--pool-file", &certificate], "is of no kind, ci/, not of the"),
    ] {
        let run = dry_run(&files, more);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{more:?}: {}", run.stderr);
        assert!(run.stderr.contains(wanted), "{more:?}: {}", run.stderr);
    }
    let short = files.write("secret", "short");
    let run = dry_run(&files, &["-u", "true"]);
    assert!(run.stderr.contains("shared secret has 5 characters, at least 16 are needed"), "{short}: {}", run.stderr);
    assert_eq!(dry_run(&Files::new(), &["-u", "true", "-n", "ci", "--pool", "linux", "--pool-file", &pool]).code, 0);
}
