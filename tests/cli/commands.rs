use crate::{folder, podlayer};

#[test]
fn the_demo_shows_four_pods_and_files_to_go_on_with() {
    let run = podlayer(&["demo"], "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    for wanted in [
        "1. a pod that is not opted in (not-opted-in.yaml): untouched",
        "spec.serviceAccountName = \"ci\"  default/base, line 1 column 1",
        "replaced \"100m\" of default/base",
        "# default/base: not in this pod: dind",
        r#"[{"op":"add","path":"/spec/containers/0/env/0","value":{"name":"BUILDKITE_ANALYTICS_TOKEN""#,
        "refused with 422",
        "unknown field \"llamas\" in the pod spec, annotation podlayer.dev/pod-spec-patch, line 1 column 1",
    ] {
        assert!(run.stdout.contains(wanted), "{wanted}\n{}", run.stdout);
    }
    assert!(run.stdout.lines().count() <= 30, "{}", run.stdout);
    // The command that it names works as it stands.
    let command = run.stdout.lines().last().unwrap().trim().strip_prefix("podlayer ").unwrap();
    let args: Vec<&str> = command.split(' ').collect();
    let again = podlayer(&args, "");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.stdout.contains("spec.serviceAccountName"), "{}", again.stdout);
    let file = std::path::Path::new(args[2]).parent().unwrap().to_owned();
    assert!(file.file_name().unwrap().to_string_lossy().starts_with("podlayer-demo-"));
    std::fs::remove_dir_all(file).unwrap();
}

#[test]
fn certificates_are_written_with_a_key_that_nobody_else_reads() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder(&[]);
    let out = folder.path().join("new/certs");
    let run = podlayer(&["certs", "--out", out.to_str().unwrap(), "--name", "podlayer.podlayer.svc"], "");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mode = std::fs::metadata(out.join("tls.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(std::fs::read_to_string(out.join("ca.crt")).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
}

#[test]
fn usage_errors_exit_with_2_and_help_teaches() {
    assert_eq!(podlayer(&["render"], "").code, 2);
    assert_eq!(podlayer(&["nonsense"], "").code, 2);
    assert_eq!(podlayer(&["webhook"], "").code, 2);
    let help = podlayer(&["--help"], "");
    assert_eq!(help.code, 0);
    assert!(help.stdout.contains("Start with `podlayer demo`"), "{}", help.stdout);
    assert!(podlayer(&["render", "--help"], "").stdout.contains("Examples:"));
    assert!(podlayer(&["completions", "bash"], "").stdout.contains("_podlayer"));
    assert!(podlayer(&["version"], "").stdout.starts_with("podlayer 0."));
}

#[test]
fn a_webhook_that_can_not_start_says_why() {
    let folder = folder(&[("layers/a.yaml", "llamas: true\n"), ("tls.crt", "nothing\n"), ("tls.key", "nothing\n")]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (crt, key, layers) = (path("tls.crt"), path("tls.key"), path("layers"));
    let run = podlayer(&["webhook", "--layers", &layers, "--tls-cert", &crt, "--tls-key", &key], "");
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("tls.crt") && run.stderr.contains("has no block"), "{}", run.stderr);
    let certs = path("certs");
    podlayer(&["certs", "--out", &certs], "");
    let (crt, key) = (format!("{certs}/tls.crt"), format!("{certs}/tls.key"));
    let local = ["--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    let run =
        podlayer(&[&["webhook", "--layers", &layers, "--tls-cert", &crt, "--tls-key", &key][..], &local].concat(), "");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("unknown field \"llamas\" in the pod spec, ")
            && run.stderr.contains("a.yaml, line 1 column 1"),
        "{}",
        run.stderr
    );
}
