//! What a person reads when the machine lacks something: one message with everything that is missing and what to do.

use std::path::Path;
use std::process::{Command, Output};

fn xtask(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(args)
        .env("HOME", home)
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_STATE_HOME")
        .env_remove("KRUISE_CLUSTER");
    command
}

fn text_of(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn given_a_machine_with_nothing_when_up_may_not_install_then_one_message_names_all_that_is_missing() {
    let home = tempfile::tempdir().unwrap();
    // Only what Debian always has is found: neither Go nor, unless it was installed before, etcd.
    let output = xtask(home.path(), &["up", "--no-install"])
        .env("PATH", home.path())
        .output()
        .unwrap();
    let text = text_of(&output);
    assert!(!output.status.success());
    assert!(
        text.contains("cannot be started") && text.contains("Go is needed"),
        "{text}"
    );
    assert!(
        text.contains("apt-get install --no-install-recommends") && text.contains("etcd-server"),
        "{text}"
    );
}

#[test]
fn given_no_cluster_then_every_command_says_so_and_down_is_content() {
    let home = tempfile::tempdir().unwrap();
    for (args, wanted, good) in [
        (&["status"][..], "no local clusters", true),
        (&["down"][..], "there is no cluster dev", true),
        (
            &["down", "--purge", "--name", "other"][..],
            "there is no cluster other",
            true,
        ),
        (&["kubeconfig"][..], "`cargo xtask up --name dev` makes it", false),
        (&["logs", "apiserver"][..], "there is no cluster dev", false),
        (&["up", "--name", "Not A Name"][..], "cannot name a cluster", false),
        (&["up", "--kubernetes", "1.2"][..], "no known patch release", false),
        (&["up", "--existing"][..], "--image", false),
        (
            &["bench", "report", "--from", "no-such-score.json"][..],
            "cannot read the score no-such-score.json",
            false,
        ),
        (
            &["bench", "report", "--from", env!("CARGO_MANIFEST_PATH")][..],
            "is no score of `cargo xtask bench`",
            false,
        ),
    ] {
        let output = xtask(home.path(), args).output().unwrap();
        assert_eq!(output.status.success(), good, "{args:?}: {}", text_of(&output));
        assert!(text_of(&output).contains(wanted), "{args:?}: {}", text_of(&output));
    }
}

#[test]
fn given_a_lock_file_left_behind_by_a_crash_then_it_does_not_stand_in_the_way() {
    let home = tempfile::tempdir().unwrap();
    let clusters = home.path().join(".local/state/kruise-rs/clusters");
    std::fs::create_dir_all(&clusters).unwrap();
    let lock = std::fs::File::create(clusters.join("dev.lock")).unwrap();
    assert!(xtask(home.path(), &["down"]).status().unwrap().success());
    lock.lock().unwrap();
    let output = xtask(home.path(), &["down"]).output().unwrap();
    assert!(
        !output.status.success() && text_of(&output).contains("another command is working on the cluster dev"),
        "{}",
        text_of(&output)
    );
}

#[test]
fn given_a_first_call_then_cargo_shows_what_it_compiles() {
    let config = read(".cargo/config.toml");
    let alias = config.lines().find(|line| line.starts_with("xtask = ")).unwrap();
    assert!(
        !alias.contains("quiet") && !alias.contains("-q"),
        "minutes pass without a word: {alias}"
    );
}

#[test]
fn given_a_run_in_ci_then_no_level_may_be_left_out() {
    assert!(read(".ci/run").lines().any(|line| line == "export CI=true"));
}

fn read(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::read_to_string(root.join(file)).unwrap()
}
