//! What a process finds by itself: keys and endpoints, in its environment, in a profile, from EKS Pod Identity; `login` has
//! those who have no keys. Each case is this test again, as a process with that environment and nothing else.

#![allow(clippy::disallowed_macros)]

use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Command;

use super::bench;
use super::sim::{IMAGE, served};
use crate::endpoint::Options;
use crate::fleet::config::{AwsCloud, Cloud as Place};
use crate::provider::Cloud;
use crate::provider::aws::Aws;

const NAME: &str = "provider::aws::tests::found::keys_and_endpoints_are_found_where_the_sdk_looks";
/// Says to a process that it is a case.
const CASE: &str = "TIDEWRIGHT_FINDS";
/// Where nobody answers.
const NOBODY: &str = "http://127.0.0.1:1";

#[test]
fn keys_and_endpoints_are_found_where_the_sdk_looks() {
    if std::env::var_os(CASE).is_some() {
        return look();
    }
    served(Options { throttle: false, ..Options::default() }, 1.0, async |url, _| {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_string()
        };
        let config = file("config", &format!("[profile ml]\nregion = eu-west-1\nendpoint_url = {url}\n"));
        let keys = file("keys", "[ml]\naws_access_key_id = AKIDTEST\naws_secret_access_key = secret\n");
        let pod = file("pod", "who-i-am");
        let role = agent("who-i-am").await;
        let own = [("AWS_ACCESS_KEY_ID", "AKIDTEST"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let all = ("AWS_ENDPOINT_URL", url);
        let of_pod =
            [("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*role), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &*pod)];
        let of_profile =
            [("AWS_PROFILE", "ml"), ("AWS_CONFIG_FILE", &*config), ("AWS_SHARED_CREDENTIALS_FILE", &*keys)];
        let with = |some: &[(&'static str, &str)]| some.iter().map(|(k, v)| (*k, v.to_string())).collect::<Vec<_>>();
        let both = |some, more| [with(some), with(more)].concat();
        let single = [("AWS_ENDPOINT_URL", NOBODY), ("AWS_ENDPOINT_URL_STS", url), ("AWS_ENDPOINT_URL_EC2", url)];
        let cases = [
            (both(&own, &[all]), "all is read"),
            (both(&own, &single), "all is read"),
            (both(&own, &[all, ("AWS_ENDPOINT_URL_EC2", NOBODY)]), "cannot be reached"),
            (with(&of_profile), "all is read"),
            (both(&of_pod, &[all]), "all is read"),
            (with(&[all, ("AWS_EC2_METADATA_DISABLED", "true")]), "there are no credentials for AWS"),
        ];
        for (environment, expected) in cases {
            let said = found(&environment).await;
            assert!(said.contains(expected), "{environment:?}: {said}");
        }
    });
}

/// What the case says whose environment this is.
pub async fn found(environment: &[(&'static str, String)]) -> String {
    let mut case = Command::new(std::env::current_exe().unwrap());
    case.args(["--exact", NAME, "--nocapture"]).env_clear().env(CASE, "yes").env("HOME", "/nowhere");
    let ran = case.envs(environment.iter().cloned()).stderr(Stdio::inherit()).output().await.unwrap();
    String::from_utf8(ran.stdout).unwrap()
}

/// Looks as a fleet does whose documents name no endpoint.
fn look() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let target = bench::target(NOBODY, IMAGE);
        let Place::Aws(cloud) = &target.standing.cloud else { panic!("it is in AWS") };
        let cloud = AwsCloud { endpoint_url: None, ..(**cloud).clone() };
        let seen = Aws::connect(&cloud, &"ml".into()).await.observe(&target).await;
        println!("{}", seen.instances.gap().map_or("all is read", |gap| &gap.why));
    });
}

/// The agent of Pod Identity: keys for whoever brings this token.
async fn agent(token: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/credentials", listener.local_addr().unwrap());
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = vec![0; 4096];
            let many = stream.read(&mut asked).await.unwrap();
            let asked = String::from_utf8_lossy(&asked[..many]).to_lowercase();
            let keys = r#"{"AccessKeyId": "AKIDTEST", "SecretAccessKey": "secret", "Token": "t",
                "Expiration": "2099-01-01T00:00:00Z"}"#;
            let (status, body) =
                if asked.contains(&format!("authorization: {token}")) { ("200 OK", keys) } else { ("403 No", "{}") };
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n");
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}
