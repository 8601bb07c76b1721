//! A Prometheus on loopback, and what it may answer.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;

use super::*;

/// What is read of a Prometheus that answers one request so, and the first line of what it was asked.
fn asked(status: &str, body: &str, query: &str) -> (Option<Sample>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:");
    let answer = format!("{head} {}\r\n\r\n{body}", body.len());
    let (send, told) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let read = stream.read(&mut request).unwrap();
        let text = String::from_utf8_lossy(&request[..read]).into_owned();
        send.send(text.lines().next().unwrap_or_default().to_owned()).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let meter = Prometheus::at(&format!("http://127.0.0.1:{port}/prom/")).unwrap();
    let sample = block(meter.sample(query));
    server.join().unwrap();
    (sample, told.recv().unwrap())
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn vector(points: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{points}]}}}}"#)
}

#[test]
fn one_number_is_an_answer_with_the_time_that_prometheus_gives_it() {
    let body = vector(r#"{"metric":{},"value":[1781002800.781,"0.43"]}"#);
    let (sample, request) = asked("200 OK", &body, r#"sum(rate(x{a="b"}[5m])) / 2"#);
    assert_eq!(request, "GET /prom/api/v1/query?query=sum%28rate%28x%7Ba%3D%22b%22%7D%5B5m%5D%29%29+%2F+2 HTTP/1.1");
    let sample = sample.unwrap();
    assert_eq!((sample.value, sample.at.as_millisecond()), ("0.43".parse().unwrap(), 1_781_002_800_781));
    // Old as it may be: the tide knows how old is too old.
    let body = r#"{"status":"success","data":{"resultType":"scalar","result":[1000,"1e-05"]}}"#;
    let sample = asked("200 OK", body, "scalar(x)").0.unwrap();
    assert_eq!((sample.value.0.to_string().as_str(), sample.at.as_second()), ("0.00001", 1000));
}

#[test]
fn whatever_is_not_one_number_is_no_answer() {
    let one = r#"{"metric":{},"value":[1,"2"]}"#;
    for body in [
        vector(""),
        vector(&format!("{one},{one}")),
        vector(r#"{"metric":{},"value":[1,"NaN"]}"#),
        vector(r#"{"metric":{},"value":[1,"+Inf"]}"#),
        r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#.to_owned(),
        r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#.to_owned(),
        "<html>".to_owned(),
    ] {
        assert_eq!(asked("200 OK", &body, "x").0, None, "{body}");
    }
    assert_eq!(asked("500 Internal Server Error", &vector(one), "x").0, None);
}

#[test]
fn who_is_not_there_or_says_nothing_gives_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let meter = Prometheus::at(&format!("http://127.0.0.1:{port}")).unwrap();
    let began = std::time::Instant::now();
    assert_eq!(block(meter.sample("x")), None, "it takes the connection and never answers");
    assert!(began.elapsed() < PATIENCE * 2, "{:?}", began.elapsed());
    drop(listener);
    assert_eq!(block(meter.sample("x")), None, "refused");
    assert_eq!(block(Prometheus::default().sample("x")), None, "nobody said where it is");
}

#[test]
fn an_address_is_a_url() {
    assert!(Prometheus::at("https://prometheus.example.com").unwrap().is_known());
    for (address, why) in [
        ("prometheus:9090", "write http://HOST:PORT"),
        ("ftp://prometheus", "write http://HOST:PORT"),
        ("http://a/?x=1", "it holds a query"),
        ("", "no address of a Prometheus"),
    ] {
        let said = Prometheus::at(address).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}
