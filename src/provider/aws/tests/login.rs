//! Who logs in with no keys of his own: a pod with a projected token (IRSA), a person who came in by SSO, a profile that takes
//! a role, a program that gives keys. AWS's side of it is a small stand-in here, which gives keys for the right word and tells
//! its account only to whoever comes with them; so what is read then was read with these.

use std::path::Path;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::bench;
use super::found::found;
use super::sim::served;
use crate::endpoint::Options;

/// What the cluster puts into the pod's file.
const OF_THE_POD: &str = "eyJhbGciOiJSUzI1NiJ9.of-the-pod";
/// What `aws sso login` left behind.
const OF_THE_PERSON: &str = "of-the-person";
/// Under this name `aws sso login` keeps what it got for the session `corp`: the digest of that.
const SESSION: &str = "ee0bfd2552fbd840c02cc48b6e823320543c450f.json";
const ROLE: &str = "arn:aws:iam::123456789012:role/fleet";

/// Files of a home, and an environment that names some of them, as it is written for people who have neither.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// What is found in an environment, beside where EC2 is and where the stand-in is.
fn finds(cases: impl AsyncFnOnce(&Home) -> Vec<(&'static str, Vec<(&'static str, String)>, &'static str)>) {
    served(Options { throttle: false, ..Options::default() }, 1.0, async |url, _| {
        let (home, desk) = (Home::new(), desk().await);
        for (what, mut environment, expected) in cases(&home).await {
            environment.push(("HOME", home.path().to_str().unwrap().to_string()));
            environment.push(("AWS_EC2_METADATA_DISABLED", "true".into()));
            environment.push(("AWS_ENDPOINT_URL", url.to_string()));
            environment.push(("AWS_ENDPOINT_URL_STS", desk.clone()));
            environment.push(("AWS_ENDPOINT_URL_SSO", desk.clone()));
            let said = found(&environment).await;
            assert!(said.contains(expected), "{what}: {said}");
        }
    });
}

#[test]
fn a_pod_with_a_projected_token_is_its_role() {
    finds(async |home| {
        let with =
            |file: &str| vec![("AWS_ROLE_ARN", ROLE.to_string()), ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_string())];
        let (right, wrong) = (home.file("token", OF_THE_POD), home.file("stale", "eyJhbGciOiJSUzI1NiJ9.stale"));
        vec![
            ("its token", with(&right), "all is read"),
            ("a token that has ended", with(&wrong), "there are no credentials for AWS"),
            ("no such file", with("/nowhere/token"), "there are no credentials for AWS"),
        ]
    });
}

#[test]
fn a_person_who_is_logged_in_by_sso_needs_no_keys() {
    finds(async |home| {
        let profile = "[profile ml]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = Fleet\n\
                       [profile other]\nsso_session = gone\nsso_account_id = 123456789012\nsso_role_name = Fleet\n";
        let session = |name: &str| {
            format!("[sso-session {name}]\nsso_region = us-west-2\nsso_start_url = https://corp.awsapps.com/start\n")
        };
        let config = home.file(".aws/config", &format!("{profile}{}{}", session("corp"), session("gone")));
        let token = json!({
            "accessToken": OF_THE_PERSON,
            "expiresAt": "2099-01-01T00:00:00Z",
            "region": "us-west-2",
            "startUrl": "https://corp.awsapps.com/start",
        });
        home.file(&format!(".aws/sso/cache/{SESSION}"), &token.to_string());
        let with = |profile: &str| vec![("AWS_PROFILE", profile.to_string()), ("AWS_CONFIG_FILE", config.clone())];
        vec![("logged in", with("ml"), "all is read"), ("not logged in", with("other"), "log in (`aws sso login`)")]
    });
}

#[test]
fn a_profile_may_take_a_role_and_a_program_may_give_the_keys() {
    finds(async |home| {
        let keys = json!({"Version": 1, "AccessKeyId": "ASIAGIVEN", "SecretAccessKey": "s", "SessionToken": "t"});
        let given = home.file("given.json", &keys.to_string());
        let config = format!(
            "[profile base]\naws_access_key_id = AKIDBASE\naws_secret_access_key = s\n\
             [profile ml]\nrole_arn = {ROLE}\nsource_profile = base\n\
             [profile program]\ncredential_process = /bin/cat {given}\n"
        );
        let config = home.file(".aws/config", &config);
        let with = |profile: &str| vec![("AWS_PROFILE", profile.to_string()), ("AWS_CONFIG_FILE", config.clone())];
        vec![("a role", with("ml"), "all is read"), ("a program", with("program"), "all is read")]
    });
}

/// The stand-in: where roles are taken and sessions are turned into keys, and where an account is told to who has some.
async fn desk() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::task::spawn_local(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let asked = heard(&mut stream).await;
            let (status, kind, body) = answer(&asked);
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n");
            let answer = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    url
}

/// A request to its end, decoded as far as it matters here.
async fn heard(stream: &mut TcpStream) -> String {
    let mut asked = Vec::new();
    loop {
        let mut some = vec![0; 8192];
        let many = stream.read(&mut some).await.unwrap();
        asked.extend_from_slice(&some[..many]);
        let text = String::from_utf8_lossy(&asked).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let long = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if many == 0 || body.len() >= long.unwrap_or(0) {
            return text.replace("%3A", ":").replace("%2F", "/");
        }
    }
}

fn answer(asked: &str) -> (&'static str, &'static str, String) {
    let has = |words: &[&str]| words.iter().all(|word| asked.contains(word));
    let role = format!("RoleArn={ROLE}");
    let token = format!("WebIdentityToken={OF_THE_POD}");
    if has(&["Action=AssumeRoleWithWebIdentity", &role, &token]) {
        return xml("AssumeRoleWithWebIdentity", &credentials("ASIAPOD"));
    }
    if has(&["Action=AssumeRole&", &role, "Credential=AKIDBASE/"]) {
        return xml("AssumeRole", &credentials("ASIATAKEN"));
    }
    if has(&["GET /federation/credentials", "account_id=123456789012", "role_name=Fleet", OF_THE_PERSON]) {
        let (id, expiration) = ("ASIAPERSON", 4_070_908_800_000_i64);
        let keys = json!({"accessKeyId": id, "secretAccessKey": "s", "sessionToken": "t", "expiration": expiration});
        return ("200 OK", "application/json", json!({"roleCredentials": keys}).to_string());
    }
    let given = ["ASIAPOD", "ASIATAKEN", "ASIAPERSON", "ASIAGIVEN"];
    let is_known = given.iter().any(|id| asked.contains(&format!("Credential={id}/")));
    if is_known && has(&["Action=GetCallerIdentity"]) {
        let who = format!("<UserId>u</UserId><Account>{}</Account><Arn>{ROLE}</Arn>", bench::ACCOUNT);
        return xml("GetCallerIdentity", &who);
    }
    let refused = "<ErrorResponse><Error><Type>Sender</Type><Code>InvalidIdentityToken</Code><Message>nobody here knows \
                   you</Message></Error></ErrorResponse>";
    ("400 Bad Request", "text/xml", refused.into())
}

fn credentials(id: &str) -> String {
    format!(
        "<Credentials><AccessKeyId>{id}</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
         <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials><AssumedRoleUser><Arn>{ROLE}</Arn>\
         <AssumedRoleId>a:b</AssumedRoleId></AssumedRoleUser>"
    )
}

fn xml(action: &str, inside: &str) -> (&'static str, &'static str, String) {
    let text = format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>{inside}</{action}Result>\
         <ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></{action}Response>"
    );
    ("200 OK", "text/xml", text)
}
