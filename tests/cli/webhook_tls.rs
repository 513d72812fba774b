//! Where the webhook's certificate comes from, by its flags.

use crate::{folder, podlayer};

/// Nobody listens there, and nobody is asked before the flags are right.
const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [{"name": "a", "user": {}}],
"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
"clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}]}"#;

#[test]
fn certificate_flags_that_do_not_fit_say_what_to_write_instead() {
    let folder = folder(&[("layers/a.yaml", "priority: 1\n"), ("kubeconfig", KUBECONFIG)]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (layers, kubeconfig) = (path("layers"), path("kubeconfig"));
    let [alone, cluster] = [["--layers", &layers], ["--kubeconfig", &kubeconfig]];
    let files = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"];
    let managed = "--tls-mode=Managed";
    for (args, want) in [
        (
            [&alone[..], &[]].concat(),
            "podlayer: --layers runs without a cluster, so the certificate must come from files: give --tls-cert and \
             --tls-key (`podlayer certs` makes some)\n",
        ),
        (
            [&alone[..], &[managed]].concat(),
            "podlayer: --tls-mode=Managed keeps its CA in a cluster, and --layers runs without one: give --tls-cert \
             and --tls-key instead (`podlayer certs` makes some)\n",
        ),
        (
            [&cluster[..], &["--tls-mode=Files"]].concat(),
            "podlayer: --tls-mode=Files needs --tls-cert and --tls-key, such as a mounted Secret's tls.crt and tls.key\n",
        ),
        (
            [&cluster[..], &[managed], &files].concat(),
            "podlayer: --tls-mode=Managed makes its own certificate: leave out --tls-cert and --tls-key, or write \
             --tls-mode=Files\n",
        ),
        (
            [&cluster[..], &["--tls-service", "pod layer"]].concat(),
            "podlayer: --tls-service and --own-namespace make no DNS name: \"pod layer.podlayer.svc\" isn't a DNS \
             name; write one such as \"podlayer.podlayer.svc\"\n",
        ),
    ] {
        let run = podlayer(&[&["webhook"], &args[..]].concat(), "");
        assert_eq!((run.code, run.stderr.as_str()), (2, want));
    }
    for half in [&files[..2], &files[2..]] {
        let run = podlayer(&[&["webhook"], &alone[..], half].concat(), "");
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains("required arguments were not provided"), "{}", run.stderr);
    }
}
