//! The page of `explain -o html` in a real browser. Needs Chromium; `.ci/run` says how to get it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops at the first surprise")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// What the browser is called by those who package it.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

const POD: &str = r##"kind: Pod
metadata:
  name: p
  labels: {podlayer.dev/enabled: "true"}
  annotations:
    podlayer.dev/classes: gpu
    podlayer.dev/pod-spec-patch: |
      containers:
      - name: a
        image: step
        env:
        - {name: HOSTILE, value: "</code><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"}
        - {name: "</style><script>document.title='owned'</script>", value: "\"' onmouseover=document.title='owned' x='"}
spec:
  hostNetwork: true
  containers:
  - {name: a, image: own}
"##;

const LAYERS: &[(&str, &str)] = &[
    ("10-base.yaml", "hostNetwork: null\nserviceAccountName: ci\ncontainers:\n- name: a\n  image: base\n"),
    ("20-team.yaml", "nodeSelector: {team: a}\nserviceAccountName: team\n"),
    (
        "30-gpu.yaml",
        "kind: ConfigMap\nmetadata:\n  name: gpu\n  labels: {podlayer.dev/layer: class}\ndata:\n  match: \"{}\"\n  \
         podSpecPatch: |\n    tolerations:\n    - {key: gpu, operator: Exists}\n  podMetadata: |\n    labels:\n      cost: gpu\n",
    ),
];

/// What is asked of the page inside the browser: the answer takes the place of the asking page.
const ASK: &str = r#"
const frame = document.querySelector('iframe');
frame.onload = () => {
  const page = frame.contentDocument, view = frame.contentWindow;
  const shown = row => view.getComputedStyle(row.querySelector('.tip')).display;
  const rows = [...page.querySelectorAll('.row')], stops = rows.filter(row => row.tabIndex === 0);
  const image = stops.find(row => row.querySelector('code').textContent.trim().startsWith('image:'));
  const before = shown(image);
  image.focus();
  const focused = page.activeElement === image, after = shown(image);
  stops[0].focus();
  const rules = [...page.styleSheets].flatMap(sheet => [...sheet.cssRules]).map(rule => rule.cssText);
  const text = row => row.querySelector('code').textContent;
  const colour = row => view.getComputedStyle(row).backgroundColor;
  const lum = c => { const p = c.match(/[\d.]+/g).slice(0, 3).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * p[0] + .7152 * p[1] + .0722 * p[2]; };
  const contrast = row => { const a = lum(colour(row)), b = lum(view.getComputedStyle(row).color); return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); };
  const owned = rows.filter(row => row.matches('.of'));
  const answer = {
    title: page.title, scripts: page.scripts.length, images: page.images.length, handlers: page.querySelectorAll('[onmouseover],[onerror]').length,
    before, focused, after, left: shown(image),
    hover: rules.some(rule => rule.includes('.row:hover > .tip') && rule.includes('display: block')),
    rows: rows.map(text), stops: stops.length, tip: image.querySelector('.tip').textContent,
    colours: Object.fromEntries([...page.querySelectorAll('.legend li')].map(item => [item.firstChild.textContent.trim(), view.getComputedStyle(item).backgroundColor])),
    of: Object.fromEntries(stops.map(row => [text(row).trim(), colour(row)])),
    contrast: Math.min(...owned.map(contrast)), back: view.getComputedStyle(page.body).backgroundColor,
    dark: view.matchMedia('(prefers-color-scheme: dark)').matches,
    loads: view.performance.getEntriesByType('resource').length,
    tags: stops.every(row => row.tagName === 'DIV' && row.querySelector('[role=note]')),
  };
  document.documentElement.textContent = 'ANSWER' + btoa(unescape(encodeURIComponent(JSON.stringify(answer)))) + 'END';
};
frame.srcdoc = new TextDecoder().decode(Uint8Array.from(atob(PAGE), c => c.charCodeAt(0)));
"#;

fn browser() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).flat_map(|folder| NAMES.iter().map(move |name| folder.join(name)));
    places.into_iter().find(|file| file.is_file()).unwrap_or_else(|| {
        panic!("no Chromium found ({} in PATH): apt-get install --no-install-recommends chromium", NAMES.join(", "))
    })
}

/// Runs the browser on a file, with a profile of its own.
fn browse(folder: &Path, arguments: &[&str], file: &Path) -> Output {
    let profile = tempfile::tempdir_in(folder).unwrap();
    Command::new("timeout")
        .arg("60")
        .arg(browser())
        // In a container there are often neither user namespaces nor a large /dev/shm.
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-extensions", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", file.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn page(folder: &Path) -> String {
    let layers = folder.join("layers");
    std::fs::create_dir_all(&layers).unwrap();
    for (name, text) in LAYERS {
        std::fs::write(layers.join(name), text).unwrap();
    }
    let pod = folder.join("pod.yaml");
    std::fs::write(&pod, POD).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_podlayer"))
        .args(["explain", "-o", "html", "-f"])
        .arg(&pod)
        .arg("--layers")
        .arg(&layers)
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn ask(more: &[&str]) -> Value {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let folder = tempfile::tempdir().unwrap();
    let page = page(folder.path());
    let asking = folder.path().join("ask.html");
    let html = format!(
        "<!DOCTYPE html><meta charset=utf-8><iframe style='width:60rem;height:40rem'></iframe><script>const PAGE = '{}';{ASK}</script>",
        STANDARD.encode(page)
    );
    std::fs::write(&asking, html).unwrap();
    let output = browse(folder.path(), &[&["--dump-dom"][..], more].concat(), &asking);
    let dom = String::from_utf8_lossy(&output.stdout);
    let answer = dom.split_once("ANSWER").and_then(|(_, rest)| rest.split_once("END")).map(|(answer, _)| answer);
    let answer = answer.unwrap_or_else(|| panic!("no answer: {dom}\n{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_slice(&STANDARD.decode(answer).unwrap()).unwrap()
}

#[test]
fn the_page_shows_whose_each_row_is_on_hover_and_focus_and_runs_nothing() {
    let answer = ask(&[]);
    for (key, wanted) in [("scripts", 0), ("images", 0), ("handlers", 0), ("loads", 0)] {
        assert_eq!(answer[key], wanted, "{key}: {answer:#}");
    }
    assert!(answer["title"].as_str().unwrap().ends_with("which layer set what"), "{answer:#}");
    let rows: Vec<&str> = answer["rows"].as_array().unwrap().iter().map(|row| row.as_str().unwrap()).collect();
    assert!(rows.iter().any(|row| row.contains("<script>document.title='owned'</script>")), "{rows:#?}");
    // By keyboard: hidden, shown while the row has the focus, hidden again; and by pointer.
    assert_eq!(
        (&answer["before"], &answer["focused"], &answer["after"]),
        (&"none".into(), &true.into(), &"block".into())
    );
    assert_eq!((&answer["left"], &answer["hover"], &answer["tags"]), (&"none".into(), &true.into(), &true.into()));
    assert_eq!(
        answer["tip"],
        "step, annotation podlayer.dev/pod-spec-patch, line 3 column 3. Replaced \"base\" of default/10-base"
    );
    // Each layer has a colour of its own, the rows have those of the legend.
    let colours = answer["colours"].as_object().unwrap();
    let different: std::collections::BTreeSet<&str> = colours.values().map(|colour| colour.as_str().unwrap()).collect();
    assert_eq!((colours.len(), different.len()), (4, 4), "{colours:?}");
    for (row, layer) in [
        ("image: step", "step"),
        ("serviceAccountName: team", "default/20-team"),
        ("tolerations:", "class/gpu"),
        ("spec.hostNetwork", "default/10-base"),
    ] {
        assert_eq!(answer["of"][row], colours[layer], "{row}: {answer:#}");
    }
}

#[test]
fn text_can_be_read_in_light_and_dark() {
    let light = ask(&["--blink-settings=preferredColorScheme=1"]);
    let dark = ask(&["--blink-settings=preferredColorScheme=0"]);
    assert_eq!((&light["dark"], &dark["dark"]), (&false.into(), &true.into()));
    assert_ne!(light["back"], dark["back"]);
    for page in [light, dark] {
        // WCAG 2.2, level AAA for text.
        assert!(page["contrast"].as_f64().unwrap() >= 7.0, "{page:#}");
    }
}
