//! The stories that moto can tell too: launch templates, RunInstances, describe, tags, terminate. It has no reservations,
//! no blocks, no placement groups and no tokens; what it does not know is a gap.
//!
//! `scripts/test` keeps moto's server in `target/tools/moto`; where it is missing the tests are skipped aloud, and in CI
//! they fail.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::bench;
use crate::provider::Cloud;
use crate::provider::aws::Aws;

/// One of the images that moto brings.
const IMAGE: &str = "ami-03cf127a";

struct Moto {
    child: Child,
    url: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Moto {
    fn start() -> Option<Self> {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let cache = std::env::var_os("TIDEWRIGHT_CACHE").map_or_else(|| root.join("target/tools"), PathBuf::from);
        let server = cache.join("moto/bin/moto_server");
        if !server.is_file() {
            let reason = format!("moto is not in {}: `scripts/test` puts it there", server.display());
            assert!(std::env::var("CI").is_ok_and(|ci| ci != "true") || std::env::var("CI").is_err(), "{reason}");
            std::io::Write::write_all(&mut std::io::stderr(), format!("SKIPPED: {reason}\n").as_bytes()).ok();
            return None;
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(server)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Self { child, url: format!("http://127.0.0.1:{port}") };
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(120), "moto does not answer");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(moto)
    }
}

fn story(tell: impl AsyncFnOnce(&Aws, &crate::fleet::Target)) {
    let Some(moto) = Moto::start() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let target = bench::target(&moto.url, IMAGE);
        let aws = bench::connect(&target, "ml").await;
        bench::furnish_for(&aws, &target).await;
        tell(&aws, &target).await;
    });
}

#[test]
fn moto_tells_templates_as_they_are_written() {
    story(async |aws, target| bench::templates_are_written_when_they_differ(aws, target).await);
}

#[test]
fn moto_launches_and_ends_an_instance() {
    story(async |aws, target| bench::an_instance_lives_and_ends(aws, target, None).await);
}

#[test]
fn moto_is_another_account_for_another_fleet() {
    story(async |_, target| bench::another_account_is_a_gap_and_is_never_written_to(target).await);
}

#[test]
fn what_moto_does_not_know_is_a_gap() {
    story(async |aws, target| {
        let seen = aws.observe(target).await;
        let gap = seen.reservations.gap().unwrap();
        assert_eq!(gap.what, "DescribeCapacityReservations");
        assert!(seen.offerings.gap().is_some() && seen.instances.gap().is_none());
    });
}
