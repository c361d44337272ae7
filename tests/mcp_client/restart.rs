//! Servers that crash.

use serde_json::json;

use crate::servers::Session;

#[tokio::test]
async fn calls_fail_while_a_crashed_server_is_away() {
    let mut session = Session::hostile("crashes", 0).await;
    let (kind, message) = session.thrown("hostile.crash({})").await;
    assert_eq!(kind, "PeerGone");
    assert!(message.starts_with("the MCP server of `hostile` did not answer: "), "{message}");
    let (kind, message) = session.thrown("hostile.echo({text: 'x'})").await;
    let expected = "the MCP server of `hostile` ended and is being restarted";
    assert_eq!((kind.as_str(), message.as_str()), ("PeerGone", expected));
    session.folder.write("hostile/go", "");
    let code = "for (;;) {
        const answer = await hostile.echo({text: 'back'}).catch((error) => error.name);
        if (answer !== 'PeerGone') break answer;
        await new Promise((resolve) => setTimeout(resolve, 20));
    }";
    let code = code.replace("break answer;", "{ globalThis.answer = answer; break; }") + "\nanswer";
    assert_eq!(session.value(&code).await, json!("back"));
}

/// The server notes when it starts: the waits between failed starts double.
#[tokio::test]
async fn waits_between_restarts_double() {
    let mut session = Session::hostile("flaky", 3).await;
    assert_eq!(session.thrown("hostile.crash({})").await.0, "PeerGone");
    let code = "for (;;) {
        const answer = await hostile.echo({text: 'back'}).catch((error) => error.name);
        if (answer === 'back') break;
        await new Promise((resolve) => setTimeout(resolve, 20));
    }";
    session.value(code).await;
    let starts = std::fs::read_to_string(session.folder.path().join("hostile/starts")).unwrap();
    let times: Vec<u64> = starts.lines().map(|time| time.parse().unwrap()).collect();
    // The first start, three that fail, and one that works.
    assert_eq!(times.len(), 5, "{starts}");
    let waits: Vec<u64> = times.windows(2).skip(1).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.iter().zip([400, 800, 1_600]).all(|(wait, least)| *wait >= least), "{waits:?}");
}
