//! Seeds, from the cases in `tests/data` and the examples: written into `fuzz/corpus/TARGET` when a target starts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use podlayer::{
    value::{JsonLimits, from_json, to_json},
    yaml::{self, Options},
};
use serde_json::{Value, json};

/// A file or folder of the project.
pub fn project(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Writes the seeds of a target that aren't there yet.
///
/// # Panics
/// Where a case can't be read or a seed not be written.
pub fn fill(target: &str) {
    let folder = project("fuzz/corpus").join(target);
    fs::create_dir_all(&folder).expect("the corpus can be written");
    let write = |name: String, text: String| {
        let file = folder.join(name.replace(['/', ':'], "-"));
        if !file.exists() {
            fs::write(file, text).expect("the corpus can be written");
        }
    };
    seeds(target).into_iter().for_each(|(name, text)| write(name, text));
}

fn seeds(target: &str) -> Vec<(String, String)> {
    match target {
        "yaml" => {
            texts("yaml", rows("tests/data/yaml/kubectl-yaml.jsonl"), |row| row["yaml"].as_str().map(str::to_owned))
                .chain(patches())
                .chain(examples())
                .collect()
        }
        "patch" => patches().chain(examples()).collect(),
        "merge" => merges().map(|(name, row)| (name, question(&row).to_string())).collect(),
        "diff" => merges()
            .filter_map(|(name, row)| {
                Some((name, json!({"before": row["original"], "after": row.get("result")?}).to_string()))
            })
            .collect(),
        "review" => reviews().collect(),
        "decide" => decisions().collect(),
        "rules" => rules().collect(),
        "quantities" => QUANTITIES.iter().map(|text| (format!("quantity-{text}"), (*text).to_owned())).collect(),
        _ => Vec::new(),
    }
}

const QUANTITIES: [&str; 16] = [
    "1",
    "0.5",
    "500m",
    "1Gi",
    "1.5Gi",
    "-1",
    "+2k",
    "1e3",
    "1E",
    "1E-3",
    ".5",
    "9223372036854775807",
    "1Ei",
    "0.0000000001",
    "100n",
    "1 Gi",
];

/// What is asked of a merge.
pub fn question(row: &Value) -> Value {
    json!({"root": row["root"], "original": row["original"], "patch": row["patch"]})
}

/// All merges with a recorded answer: a name, and `root`, `original`, `patch`, and `result` where it isn't an error.
pub fn merges() -> impl Iterator<Item = (String, Value)> {
    let by_hand = folders("tests/data/smp").into_iter().filter_map(|folder| {
        let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let mut row =
            json!({"root": "pod", "original": document(&read("pod.yaml")?)?, "patch": document(&read("patch.yaml")?)?});
        if let Some(result) = read("expected.json") {
            row["result"] = serde_json::from_str(&result).ok()?;
        }
        Some((name(&folder), row))
    });
    let generated = rows("tests/data/smp-corpus.jsonl").into_iter().enumerate();
    by_hand.chain(generated.map(|(at, row)| (format!("corpus-{at}"), row)))
}

/// The lines of a file, each a JSON value.
pub fn rows(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(project(file)).expect("the cases are there");
    text.lines().map(|line| serde_json::from_str(line).expect("a case is JSON")).collect()
}

fn texts(
    kind: &'static str,
    rows: Vec<Value>,
    text: impl Fn(&Value) -> Option<String>,
) -> impl Iterator<Item = (String, String)> {
    let numbered = rows.into_iter().enumerate();
    let of_row = move |(at, row): (usize, Value)| Some((format!("{kind}-{at}"), text(&row)?));
    // The deepest rows say nothing that a shallower one doesn't.
    numbered.filter_map(of_row).filter(|(_, text)| text.len() < 16 << 10)
}

fn folders(of: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(project(of)).expect("the cases are there");
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn files(of: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in folders(of) {
        if path.is_dir() {
            let below = format!("{of}/{}", name(&path));
            found.extend(files(&below, ending));
        } else if path.extension().is_some_and(|end| end == ending)
            && let Ok(text) = fs::read_to_string(&path)
        {
            found.push((format!("{of}-{}", name(&path)), text));
        }
    }
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// kubectl takes what starts with a brace for JSON.
fn document(text: &str) -> Option<Value> {
    let json = if text.trim_start().starts_with('{') {
        to_json(&from_json(text, JsonLimits::DEFAULT).ok()?)
    } else {
        to_json(&yaml::parse(text, &Options::KUBECTL).ok()?.document.value)
    };
    serde_json::from_str(&json).ok()
}

/// Texts of patches.
fn patches() -> impl Iterator<Item = (String, String)> {
    let by_hand = folders("tests/data/smp").into_iter().filter_map(|folder| {
        Some((format!("smp-{}", name(&folder)), fs::read_to_string(folder.join("patch.yaml")).ok()?))
    });
    let typos = fs::read_to_string(project("tests/data/typos/typos.yaml")).ok().and_then(|text| document(&text));
    let typos = typos.and_then(|typos| typos.as_array().cloned()).unwrap_or_default();
    by_hand.chain(texts("typo", typos, |row| row["patch"].as_str().map(str::to_owned)))
}

fn examples() -> impl Iterator<Item = (String, String)> {
    files("examples", "yaml")
        .into_iter()
        .chain(files("tests/data/jobs", "yaml"))
        .chain(files("tests/data/reviews/layers", "yaml"))
}

fn reviews() -> impl Iterator<Item = (String, String)> {
    // The smallest recorded one, as it is and with what the endpoints tell apart.
    let review = fs::read_to_string(project("tests/data/reviews/review-4k.json")).unwrap_or_default();
    let small = |pod: Value, kind: &str, group: &str| {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {"uid": "u", "namespace": "ci",
            "operation": "CREATE", "kind": {"group": group, "version": "v1", "kind": kind}, "object": pod}})
    };
    let pods = decisions().filter_map(|(name, text)| Some((name, serde_json::from_str::<Value>(&text).ok()?)));
    let of_pods = pods.flat_map(move |(name, case)| {
        let job = json!({"kind": "Job", "metadata": {"name": "j"}, "spec": {"template": case["pod"]}});
        [
            (format!("pod-{name}"), small(case["pod"].clone(), "Pod", "").to_string()),
            (format!("job-{name}"), small(job, "Job", "batch").to_string()),
        ]
    });
    let config_map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "base", "namespace": "podlayer",
        "labels": {"podlayer.dev/layer": "default"}}, "data": {"podSpecPatch": "serviceAccountName: ci\n", "match": "{}"}});
    [("review-4k".to_owned(), review), ("config-map".to_owned(), small(config_map, "ConfigMap", "").to_string())]
        .into_iter()
        .chain(of_pods)
}

/// Pods with stacks: as `pods::Case` reads them.
fn decisions() -> impl Iterator<Item = (String, String)> {
    let jobs = files("tests/data/jobs", "yaml").into_iter().filter_map(|(name, text)| Some((name, document(&text)?)));
    let of_jobs = jobs.map(|(name, object)| {
        let pod = object.pointer("/spec/template").cloned().unwrap_or(object);
        (name, json!({"pod": pod, "step": {"containers": [{"name": "container-0", "resources": {"requests": {"cpu": "2"}}}]},
            "layers": [{"patch": {"serviceAccountName": "ci", "containers": [{"name": "*", "env": [{"name": "A", "value": "b"}]}]}},
                {"kind": "class", "patch": {"containers": [{"name": "dind", "image": "d"}]}}]}).to_string())
    });
    let of_patches = folders("tests/data/smp").into_iter().filter_map(|folder| {
        let read = |file: &str| document(&fs::read_to_string(folder.join(file)).ok()?);
        let (pod, patch) = (read("pod.yaml")?, read("patch.yaml")?.get("spec").cloned().unwrap_or_default());
        Some((name(&folder), json!({"pod": pod, "step": patch, "layers": [{"patch": patch, "order": 1}]}).to_string()))
    });
    of_jobs.chain(of_patches)
}

fn rules() -> impl Iterator<Item = (String, String)> {
    const RULES: [&str; 7] = [
        "{}",
        "onViolation: Drop",
        "allow: ['@builtin', 'tolerations', 'containers[*].securityContext.readOnlyRootFilesystem']",
        "limits: {'containers[*].resources.limits.cpu': 2}\nonViolation: Clamp",
        "images: ['registry.example.com/*']\nsecrets: ['ci-*']\ncontainers: No",
        "allow: [volumes, 'containers[*]']",
        "unionLists: [tolerations]\nprivilegedFrom: LayersOnly",
    ];
    let steps = [
        json!({"containers": [{"name": "a", "securityContext": {"privileged": true}}]}),
        json!({"containers": [{"name": "x", "image": "y", "volumeMounts": [{"name": "node", "mountPath": "/n"}]}]}),
        json!({"volumes": [{"$patch": "replace"}, {"name": "own", "hostPath": {"path": "/"}}], "hostPID": true}),
        json!({"containers": [{"name": "*", "resources": {"limits": {"cpu": "64"}}}], "serviceAccountName": "admin"}),
    ];
    let of_step = |(at, step): (usize, Value)| {
        RULES.iter().enumerate().map(move |(nth, rules)| {
            (format!("rules-{nth}-step-{at}"), json!({"rules": rules, "step": step}).to_string())
        })
    };
    steps.into_iter().enumerate().flat_map(of_step).collect::<Vec<_>>().into_iter()
}
