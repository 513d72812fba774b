//! The manifests for cert-manager agree with each other and with the names that podlayer has.

use std::path::Path;

use podlayer::names;
use serde_json::Value;

fn objects() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("certs/cert-manager");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let text: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let documents = text.iter().flat_map(|text| text.split("\n---\n"));
    documents.map(|document| serde_yaml::from_str(document).unwrap()).collect()
}

#[test]
fn the_certificate_is_for_the_service_and_each_reference_names_something() {
    let objects = objects();
    let of_kind = |kind: &str| objects.iter().filter(|object| object["kind"] == kind).collect::<Vec<_>>();
    let (issuers, certificates) = (of_kind("Issuer"), of_kind("Certificate"));
    assert_eq!((issuers.len(), certificates.len(), objects.len()), (2, 2, 4));
    for object in &objects {
        assert_eq!(object["metadata"]["namespace"], names::NAMESPACE);
    }
    for certificate in &certificates {
        let issuer = &certificate["spec"]["issuerRef"]["name"];
        assert!(issuers.iter().any(|found| found["metadata"]["name"] == *issuer), "{issuer}");
        // That one is podlayer's own, in the other mode.
        assert_ne!(certificate["spec"]["secretName"], names::CA_SECRET);
    }
    let signs = issuers.iter().find_map(|issuer| issuer["spec"]["ca"]["secretName"].as_str()).unwrap();
    let authority = certificates.iter().find(|certificate| certificate["spec"]["isCA"] == true).unwrap();
    assert_eq!(authority["spec"]["secretName"], signs);
    let leaf = certificates.iter().find(|certificate| certificate["spec"]["isCA"] != true).unwrap();
    let host = format!("{}.{}.svc", names::SERVICE, names::NAMESPACE);
    assert_eq!(leaf["spec"]["dnsNames"][0], host.as_str());
}
