use std::{
    env,
    error::Error,
    fmt::Arguments,
    fs,
    path::{Path, PathBuf},
};

/// What is printed at once and written down at the end: tables for people, and the rounds that they were made of.
pub(crate) struct Report {
    folder: PathBuf,
    name: &'static str,
    text: String,
    raw: String,
}

impl Report {
    /// One that ends in `target/bench/NAME.md` and `NAME.tsv`; the columns are those of the latter.
    pub(crate) fn new(name: &'static str, columns: &[&str]) -> Result<Self, Box<dyn Error>> {
        let folder = folder();
        fs::create_dir_all(&folder).map_err(|error| format!("can't make {}: {error}", folder.display()))?;
        Ok(Self { folder, name, text: String::new(), raw: columns.join("\t") + "\n" })
    }

    #[allow(clippy::print_stdout, reason = "a program for people at a terminal")]
    pub(crate) fn line(&mut self, line: Arguments<'_>) {
        println!("{line}");
        self.text.push_str(&format!("{line}\n"));
    }

    /// One round, kept as it was measured.
    pub(crate) fn raw(&mut self, fields: &[&dyn ToString]) {
        self.raw.push_str(&(fields.iter().map(|field| field.to_string()).collect::<Vec<_>>().join("\t") + "\n"));
    }

    pub(crate) fn write(&self) -> Result<(), Box<dyn Error>> {
        for (ending, text) in [("md", &self.text), ("tsv", &self.raw)] {
            let path = self.folder.join(format!("{}.{ending}", self.name));
            fs::write(&path, text).map_err(|error| format!("can't write {}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Where results go: `bench` in the folder that cargo builds in.
pub(crate) fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Relative to the root, if it is relative.
    root.join(env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)).join("bench")
}

/// A review on record: the body that the API server would post.
pub(crate) fn review(name: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let path = recorded().join(format!("review-{name}.json"));
    fs::read(&path).map_err(|error| format!("can't read {}: {error}", path.display()).into())
}

/// Where recorded reviews and their layers are.
pub(crate) fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reviews")
}
