use crate::podlayer;

#[test]
fn merges_are_answered_a_line_each_and_strictly() {
    let cases = concat!(
        r#"{"root":"podspec","original":{"containers":[{"name":"a"}]},"patch":{"containers":[{"name":"b"}]}}"#,
        "\n",
        r#"{"root":"pod","original":null,"patch":{"spec":{"x":null,"y":{"$patch":"delete"}}}}"#,
        "\n",
        r#"{"root":"podspec","original":{"containers":[{"name":"a"}]},"patch":{"containers":[{"name":"c","env":[{"name":"E","$patch":"delete"}]}]}}"#,
        "\n",
        "\n",
        r#"{"root":"podspec","original":{"foo":{}},"patch":{"foo":{}}}"#,
        "\n",
        r#"{"root":"service","original":{},"patch":{}}"#,
        "\n",
        "nonsense\n",
    );
    let run = podlayer(&["conformance", "merge"], cases);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!((run.code, lines.len()), (0, 6), "{}", run.stdout);
    assert_eq!(lines[0], r#"{"result":{"containers":[{"name":"b"},{"name":"a"}]}}"#);
    assert_eq!(lines[1], r#"{"result":{"spec":{}}}"#);
    assert_eq!(
        lines[2],
        r#"{"result":{"containers":[{"name":"c","env":[{"name":"E","$patch":"delete"}]},{"name":"a"}]}}"#
    );
    assert!(lines[3..].iter().all(|line| line.starts_with(r#"{"error":""#)), "{}", run.stdout);
}

#[test]
fn documents_are_answered_a_line_each_and_as_deep_as_kubectl_reads() {
    let deep = format!("{}{}", "[".repeat(9000), "]".repeat(9000));
    let cases = format!(
        "{}\n{}\n{}\n{}\n",
        r#"{"yaml":"k: yes\nm: 0644\n"}"#,
        r#"{"yaml":"a: ["}"#,
        r#"{"yaml":"a: 18446744073709551615"}"#,
        serde_json::json!({ "yaml": deep })
    );
    let run = podlayer(&["conformance", "yaml"], &cases);
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!((run.code, lines.len()), (0, 4), "{}", run.stderr);
    assert_eq!(lines[0], r#"{"value":{"k":true,"m":420}}"#);
    assert!(lines[1].starts_with(r#"{"error":""#) && lines[1].contains("line 1"), "{}", lines[1]);
    assert_eq!(lines[2], r#"{"value":{"a":18446744073709551615}}"#);
    assert_eq!(lines[3], format!(r#"{{"value":{deep}}}"#));
}

#[test]
fn a_line_that_is_no_text_has_its_answer_and_the_next_ones_too() {
    use std::io::Write;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_podlayer"))
        .args(["conformance", "yaml"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{\"yaml\":\"\xff\"}\n{\"yaml\":\"a: 1\"}\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.starts_with("{\"error\":\"unreadable case: invalid utf-8"), "{stdout}");
    assert!(stdout.ends_with("\n{\"value\":{\"a\":1}}\n"), "{stdout}");
}
