//! Where the PAT comes from.

use std::{
    fs,
    io::{Read, Write},
    process::{Command, Stdio},
    time::Duration,
};

use crate::{
    controlplane::wait_for,
    devops::DevOps,
    program::{Files, PAT, command, nothing_shown, register, run},
};

fn arguments(devops: &DevOps, files: &Files) -> Vec<String> {
    register(&devops.uri(), &files.secret(), &[])
}

#[test]
fn without_a_pat_and_a_terminal_it_is_an_error_and_nobody_is_called() {
    let (devops, files) = (DevOps::start(), Files::new());
    let arguments = arguments(&devops, &files);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let unset = run(&mut command(&arguments));
    let wanted = "podlayer: failed to get a PAT: no PAT: set AZURE_DEVOPS_EXT_PAT, or run this on a terminal to be asked for \
                  it\n";
    assert_eq!((unset.code, unset.stdout.as_str(), unset.stderr.as_str()), (2, "", wanted));
    for bad in ["", " ", "two words", "tab\tbed", "ümläut"] {
        let run = run(command(&arguments).env("AZURE_DEVOPS_EXT_PAT", bad));
        let wanted = "podlayer: failed to get a PAT: the PAT from AZURE_DEVOPS_EXT_PAT is empty or has blanks or other \
                      characters that no PAT has\n";
        assert_eq!((run.code, run.stderr.as_str()), (2, wanted), "{bad:?}");
    }
    assert_eq!(devops.held(|held| held.connections), 0);
}

#[test]
fn on_a_terminal_it_is_asked_for_and_not_shown() {
    let (devops, files) = (DevOps::start(), Files::new());
    let words: Vec<String> = arguments(&devops, &files).iter().map(|word| format!("'{word}'")).collect();
    let me = files.path("pid");
    // `script` gives it a terminal; the shell says which process that terminal is of.
    let line =
        format!("echo $$ > '{}'; exec '{}' azure {}", me.display(), env!("CARGO_BIN_EXE_podlayer"), words.join(" "));
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_remove("AZURE_DEVOPS_EXT_PAT")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("`script` of util-linux");
    // Typed only once the terminal shows nothing any more.
    wait_for(Duration::from_secs(60), "the terminal to be silent", || {
        let pid = fs::read_to_string(&me).ok()?;
        let terminal = fs::read_link(format!("/proc/{}/fd/0", pid.trim())).ok()?;
        let settings = Command::new("stty").arg("-a").arg("-F").arg(terminal).output().ok()?;
        String::from_utf8_lossy(&settings.stdout).split([' ', '\n']).any(|word| word == "-echo").then_some(())
    });
    let mut stdin = script.stdin.take().unwrap();
    stdin.write_all(format!("{PAT}\n").as_bytes()).unwrap();
    let mut shown = String::new();
    script.stdout.take().unwrap().read_to_string(&mut shown).unwrap();
    drop(stdin);
    assert!(script.wait().unwrap().success(), "{shown}");
    nothing_shown(&shown);
    assert!(shown.contains("PAT of Azure DevOps (it isn't shown): "), "{shown}");
    assert!(shown.contains("pool linux: made, id 8, target size 10"), "{shown}");
}
