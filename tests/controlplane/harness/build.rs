//! Builds the Go programs that tests need (the control plane, helm) once for all test processes.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Names a control plane to use instead: one of another release, that
/// `.ci/kubernetes` has built of the same sources.
const OTHER: &str = "PODLAYER_TEST_CONTROLPLANE";

/// Returns the control plane's binary, built on first use and again whenever its
/// sources change. Test processes that run at the same time build it once.
///
/// # Panics
///
/// When it can't be built, with the reason, or when the other one that was named
/// isn't there.
pub(crate) fn binary() -> PathBuf {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(build).clone()
}

fn build() -> PathBuf {
    if let Some(other) = std::env::var_os(OTHER) {
        // Tests run in the folder of their package.
        let other = project_root().join(other);
        assert!(other.is_file(), "{OTHER} names {}, which is no file: run .ci/kubernetes", other.display());
        return other;
    }
    let source = project_root().join("tests/controlplane");
    let release = kubernetes_release(&source);
    // The parts report this version, and kubectl compares it; without the flags
    // they all claim to be v0.0.0.
    let version = "k8s.io/component-base/version.git";
    let (major, minor) = (part(&release, 0), part(&release, 1));
    let ldflags = format!("-s -w -X {version}Version=v{release} -X {version}Major={major} -X {version}Minor={minor}");
    let program = Program { name: "controlplane", source: &source, package: ".", ldflags: &ldflags, minutes: 5 };
    program.build()
}

/// A Go program that tests need, pinned by the module that it is built from.
pub(crate) struct Program<'a> {
    /// Of the binary and its folder in the target folder.
    pub(crate) name: &'a str,
    /// The module's folder.
    pub(crate) source: &'a Path,
    /// What to build there: `.`, or a package that the module requires.
    pub(crate) package: &'a str,
    pub(crate) ldflags: &'a str,
    /// About how long the first build takes.
    pub(crate) minutes: u8,
}

impl Program<'_> {
    /// Returns the binary, built on first use and again whenever its sources
    /// change. Test processes that run at the same time build it once.
    ///
    /// # Panics
    ///
    /// When it can't be built, with the reason.
    pub(crate) fn build(&self) -> PathBuf {
        let Self { name, source, package, ldflags, minutes } = *self;
        let cache = target_folder(&project_root()).join(name);
        let folder = cache.join(format!("{:016x}", fingerprint(source, ldflags)));
        let binary = folder.join(name);
        if binary.exists() {
            return binary;
        }
        must("create the build folder", &folder, fs::create_dir_all(&folder));
        let lock_path = cache.join("lock");
        let lock = must("create the lock file", &lock_path, File::create(&lock_path));
        must("lock", &lock_path, lock.lock());
        if binary.exists() {
            return binary; // another process built it while we waited for the lock
        }
        eprintln!("building {name} for the tests, about {minutes} minutes when nothing is cached");
        // Built under another name: a build that was killed leaves no half binary.
        let unfinished = folder.join("unfinished");
        let output = Command::new("go")
            .args(["build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o"])
            .arg(&unfinished)
            .arg(package)
            .current_dir(source)
            .env("CGO_ENABLED", "0") // no C compiler needed
            .env("GOWORK", "off")
            .output()
            .unwrap_or_else(|error| {
                panic!("can't run `go` ({error}): install Go 1.26 or newer and put it on the PATH")
            });
        assert!(
            output.status.success(),
            "{name} doesn't build for the tests. It needs Go 1.26 or newer (`go version`), 8 GB of \
             free disk, and, for the first build, a reachable Go module proxy (`go env GOPROXY`).\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        must("put the binary in its place", &binary, fs::rename(&unfinished, &binary));
        binary
    }
}

/// The minor release of Kubernetes that this build's types are of, such as 36,
/// whichever control plane runs.
pub(crate) fn minor_of_this_build() -> i32 {
    let release = kubernetes_release(&project_root().join("tests/controlplane"));
    let minor = part(&release, 1);
    minor.parse().unwrap_or_else(|error| panic!("{release} has no minor release ({error})"))
}

/// The Kubernetes release that `go.mod` requires, such as `1.36.3`.
fn kubernetes_release(source: &Path) -> String {
    let path = source.join("go.mod");
    let text = must("read", &path, fs::read_to_string(&path));
    let release = text.split("k8s.io/kubernetes v").nth(1).and_then(|rest| rest.split_whitespace().next());
    release.unwrap_or_else(|| panic!("{} requires no k8s.io/kubernetes", path.display())).to_owned()
}

fn part(release: &str, index: usize) -> &str {
    release.split('.').nth(index).unwrap_or("0")
}

fn fingerprint(source: &Path, ldflags: &str) -> u64 {
    let mut inputs: Vec<PathBuf> = must("list", source, fs::read_dir(source))
        .map(|entry| must("list", source, entry).path())
        .filter(|path| path.extension().is_some_and(|ending| ["go", "mod", "sum"].iter().any(|known| ending == *known)))
        .collect();
    inputs.sort();
    let mut hasher = DefaultHasher::new();
    ldflags.hash(&mut hasher);
    for path in inputs {
        path.file_name().hash(&mut hasher);
        must("read", &path, fs::read(&path)).hash(&mut hasher);
    }
    hasher.finish()
}

/// The folder that holds `tests/controlplane`, whichever package of the
/// workspace this module is compiled into.
pub(crate) fn project_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().find(|folder| folder.join("tests/controlplane/go.mod").exists());
    root.unwrap_or_else(|| {
        panic!("no tests/controlplane/go.mod in {} or above it: run tests in a full checkout", package.display())
    })
    .to_owned()
}

fn target_folder(root: &Path) -> PathBuf {
    // Relative to the workspace's root if it is relative.
    root.join(std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from))
}

fn must<T>(action: &str, path: &Path, result: std::io::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("can't {action} {}: {error}", path.display()))
}
