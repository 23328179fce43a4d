//! Common parts of all workloads: sizes, directories, and times that the server reports.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};
use sudare_roles::{
    error::{Error, Result},
    os::files,
};

/// One size of a workload, and the location of its files.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The number of the size in the suite, 0 to 3.
    pub size: usize,
    /// The arguments after the size.
    options: Vec<String>,
    /// Files that client and server exchange or keep for later steps: `io/NAME`.
    io: PathBuf,
    /// The data in the clear: `datasets/NAME`.
    datasets: PathBuf,
}

impl Instance {
    /// Returns the instance of size `size` in the harness's directory `root`. `names` are the names
    /// of the sizes.
    ///
    /// # Errors
    /// [`Error::Usage`] for another number.
    pub fn new(root: &Path, size: &str, names: [&str; 4], options: &[String]) -> Result<Self> {
        let number = size.parse().ok().filter(|&size: &usize| size < names.len());
        let size = number.ok_or_else(|| {
            Error::Usage(format!("there is no size {size:?}: write 0, 1, 2 or 3"))
        })?;
        let [io, datasets] = ["io", "datasets"].map(|folder| root.join(folder).join(names[size]));
        Ok(Self { size, options: options.to_vec(), io, datasets })
    }

    /// Returns whether an option such as `--count_only` was given.
    #[must_use]
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|given| given == option)
    }

    /// Returns the path of a file or directory that steps exchange.
    #[must_use]
    pub fn io(&self, name: &str) -> PathBuf {
        self.io.join(name)
    }

    /// Returns a directory that steps exchange, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn io_folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.io(name);
        files::make_folder(&folder)?;
        Ok(folder)
    }

    /// Returns the path of a file of the data in the clear.
    #[must_use]
    pub fn dataset(&self, name: &str) -> PathBuf {
        self.datasets.join(name)
    }
}

/// Run times of a server's steps. The harness shows them next to its own times.
#[derive(Debug, Default)]
pub struct Steps(serde_json::Map<String, serde_json::Value>);

impl Steps {
    /// Runs a step and records its seconds.
    ///
    /// # Errors
    /// Errors from `work`.
    pub fn time<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work()?;
        let seconds = (start.elapsed().as_secs_f64() * 1e4).round() / 1e4;
        self.0.insert(name.into(), seconds.into());
        Ok(result)
    }

    /// Writes the times to the file that the harness reads.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(self, instance: &Instance) -> Result<()> {
        let path = instance.io("server_reported_steps.json");
        let text = serde_json::Value::from(self.0).to_string();
        fs::write(&path, text).map_err(|error| Error::io("write", &path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["toy", "small", "medium", "large"];

    #[test]
    fn sizes_have_folders_and_options() {
        let options = ["--count_only".to_owned()];
        let small = Instance::new(Path::new("h"), "1", NAMES, &options).unwrap();
        assert_eq!((small.size, small.has("--count_only"), small.has("--seed")), (1, true, false));
        assert_eq!(small.io("keys"), Path::new("h/io/small/keys"));
        assert_eq!(small.dataset("db.bin"), Path::new("h/datasets/small/db.bin"));
        for bad in ["4", "-1", "toy", ""] {
            let refused = Instance::new(Path::new("h"), bad, NAMES, &[]);
            assert_eq!(refused.unwrap_err().kind(), "Usage", "{bad}");
        }
    }

    #[test]
    fn steps_are_reported_with_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let toy = Instance::new(folder.path(), "0", NAMES, &[]).unwrap();
        fs::create_dir_all(toy.io("")).unwrap();
        let mut steps = Steps::default();
        assert_eq!(steps.time("Search", || Ok(7)).unwrap(), 7);
        let refused: Result<()> = steps.time("Fails", || Err(Error::Usage("no".into())));
        assert!(refused.is_err());
        steps.write(&toy).unwrap();
        let text = fs::read_to_string(toy.io("server_reported_steps.json")).unwrap();
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(read["Search"].as_f64().is_some_and(|seconds| seconds < 60.0));
        assert!(read.get("Fails").is_none());
    }
}
