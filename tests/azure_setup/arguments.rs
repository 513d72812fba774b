//! Every argument, and the file with the secret, is looked at before there is a PAT and before anybody is called.

use crate::{
    devops::DevOps,
    program::{Files, command, register, run},
};

#[test]
fn a_wrong_argument_is_told_before_a_pat_is_read_or_a_call_made() {
    let (devops, files) = (DevOps::start(), Files::new());
    let good = register(&devops.uri(), &files.secret(), &[]);
    let short = files.write("short", "short\n");
    let binary = files.path("binary");
    std::fs::write(&binary, [0xff; 20]).unwrap();
    let missing = files.path("none").to_str().unwrap().to_owned();
    for (flag, value, wanted) in [
        ("--shared-secret-file", short.as_str(), "shared secret has 5 characters, at least 16 are needed"),
        (
            "--shared-secret-file",
            binary.to_str().unwrap(),
            "shared secret is no UTF-8 text; write at least 16 characters",
        ),
        ("--shared-secret-file", &missing, "(a file with the secret, not the secret): No such file"),
        ("--target-size", "0", "0 is not in 1..=10000"),
        ("--target-size", "many", "invalid value 'many' for '--target-size <COUNT>'"),
        ("--dns-name", "https://agents.example.com", "it begins as a URL does; write the name alone"),
        ("--dns-name", "192.0.2.1", "is an address, a certificate needs a name"),
        ("--pool", "", "it is empty"),
        ("--pool", " linux", "it begins or ends with a blank"),
        ("--uri", "example", "it is no URI; write https://dev.azure.com/ORGANISATION"),
        ("--uri", "http://dev.azure.com/example", "it begins with \"http\", and a PAT goes over https only"),
        ("--uri", "https://dev.azure.com", "it names no organisation"),
    ] {
        let mut arguments = good.clone();
        let at = arguments.iter().position(|argument| argument == flag).unwrap();
        arguments[at + 1] = value.to_owned();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        // There is no PAT: were it looked for first, that would be told.
        let told = run(&mut command(&arguments));
        assert_eq!((told.code, told.stdout.as_str()), (2, ""), "{flag} {value}");
        assert!(told.stderr.contains(wanted), "{flag} {value}: {}", told.stderr);
        assert!(!told.stderr.contains("PAT:"), "{flag} {value}: {}", told.stderr);
    }
    for more in [
        &["--with", "status"][..],
        &["--agent-pool", "ci"],
        &["--agent-pool", "ci/linux", "--with", "metrics"],
        &["--ca-file", &missing],
        &["--timeout-seconds", "0"],
        &["-o", "yaml"],
    ] {
        let arguments = register(&devops.uri(), &files.secret(), more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let told = run(&mut command(&arguments));
        assert!(told.code == 2 && !told.stderr.contains("PAT:"), "{more:?}: {}", told.stderr);
    }
    assert_eq!(devops.held(|held| held.connections), 0);
}

#[test]
fn a_credential_in_the_uri_is_refused_without_being_shown() {
    let files = Files::new();
    let uri = format!("https://me:{}@dev.azure.com/example", crate::program::PAT);
    let arguments = register(&uri, &files.secret(), &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let told = run(&mut command(&arguments));
    assert!(told.code == 2 && told.stderr.contains("it has a user or a password"), "{}", told.stderr);
}

#[test]
fn a_secret_in_the_place_of_its_file_is_not_shown() {
    let arguments = register("https://dev.azure.com/example", crate::program::SECRET, &[]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let told = run(&mut command(&arguments));
    assert!(told.stderr.contains("a file with the secret, not the secret"), "{}", told.stderr);
}
