//! Requests and responses of a document written here.

use serde_json::json;

use crate::api::{self, Session};

const DOCUMENT: &str = include_str!("shop.yaml");

async fn shop() -> Session {
    let server = api::start(None).await;
    Session::start(DOCUMENT, json!({"server": format!("http://{server}/v1/")})).await
}

#[tokio::test]
async fn parameters_and_bodies_reach_the_server() {
    let mut shop = shop().await;
    let find = "await api.findItems({ids: [1, 2], filter: {color: 'red & blue'}, 'X-Trace': 'abc', session: 's 1', shop: 'a/b'})";
    assert_eq!(
        shop.value(find).await,
        json!({
            "method": "GET", "uri": "/v1/shops/a%2Fb/items?ids=1,2&filter%5Bcolor%5D=red%20%26%20blue",
            "headers": {"x-trace": "abc", "cookie": "session=s%201"}, "body": "",
        })
    );
    let add = "await api.addItem({shop: 'x', body: {name: 'Kettle', price: 20}})";
    assert_eq!(
        shop.value(add).await,
        json!({
            "method": "POST", "uri": "/v1/shops/x/items", "headers": {"content-type": "application/json"},
            "body": r#"{"name":"Kettle","price":20}"#,
        })
    );
    let form = shop.value("await api.search({body: {words: ['a b', 'c'], exact: true}})").await;
    assert_eq!(
        (&form["body"], &form["headers"]["content-type"]),
        (&json!("words=a%20b&words=c&exact=true"), &json!("application/x-www-form-urlencoded"))
    );
    let text = shop.value("await api.note({body: 'as it is'})").await;
    assert_eq!((&text["body"], &text["headers"]["content-type"]), (&json!("as it is"), &json!("text/plain")));
    let raw = shop.value("await api.put_raw({body: new Uint8Array([104, 105])})").await;
    assert_eq!(
        (&raw["body"], &raw["headers"]["content-type"]),
        (&json!("hi"), &json!("application/octet-stream"))
    );
}

#[tokio::test]
async fn multipart_has_files_and_fields() {
    let mut shop = shop().await;
    let upload = shop
        .value("await api.upload({body: {title: 'A', picture: {data: new Uint8Array([104, 105]), filename: 'a.png', contentType: 'image/png'}}})")
        .await;
    let content_type = upload["headers"]["content-type"].as_str().unwrap();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    assert_eq!(
        upload["body"].as_str().unwrap().replace(boundary, "B"),
        "--B\r\nContent-Disposition: form-data; name=\"title\"\r\n\r\nA\r\n\
         --B\r\nContent-Disposition: form-data; name=\"picture\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\nhi\r\n--B--\r\n"
    );
}

#[tokio::test]
async fn input_is_checked_before_anything_is_sent() {
    let mut shop = shop().await;
    for (call, expected) in [
        ("api.findItems({shop: 'x', ids: ['a']})", "ids/0"),
        ("api.findItems({})", "shop"),
        ("api.findItems({shop: 'x', unknown: 1})", "unknown"),
        ("api.findItems({shop: '..'})", "neither empty nor"),
        ("api.findItems({shop: 'x', 'X-Trace': 'a\\nb'})", "line breaks"),
        ("api.addItem({shop: 'x', body: {price: -1, name: 'a'}})", "price"),
        ("api.addItem({shop: 'x'})", "body"),
    ] {
        let thrown = shop.thrown(call).await;
        assert_eq!(thrown["name"], json!("InvalidInput"), "{call}: {thrown}");
        assert!(thrown["message"].as_str().unwrap().contains(expected), "{call}: {thrown}");
    }
}

#[tokio::test]
async fn responses_become_values_and_errors() {
    let server = api::start(None).await;
    let config = json!({"server": format!("http://{server}"), "timeoutMs": 60_000});
    let paths = ["/status/204", "/status/500", "/text", "/bytes", "/echo"];
    let mut session = Session::of_paths(&paths, config).await;
    assert_eq!(session.value("await api.get_status_204()").await, json!(null));
    assert_eq!(session.value("await api.get_text({})").await, json!("plain text"));
    assert_eq!(session.value("Array.from(await api.get_bytes())").await, json!([1, 2, 255]));
    let thrown = session.thrown("api.get_status_500()").await;
    assert_eq!(
        thrown,
        json!({
            "name": "HttpError", "code": 500, "message": "GET /status/500: 500 Internal Server Error: {\"reason\": \"broken\"}",
            "data": {"kind": "HttpError", "status": 500, "body": {"reason": "broken"}},
        })
    );
}

#[tokio::test]
async fn full_responses_have_status_and_headers() {
    let server = api::start(None).await;
    let config = json!({"server": format!("http://{server}"), "response": "full"});
    let mut session = Session::of_paths(&["/links"], config).await;
    let code = "const { status, headers, body } = await api.get_links(); [status, headers.link, body]";
    assert_eq!(session.value(code).await, json!([200, "</next>; rel=next", [1]]));
}

#[tokio::test]
async fn response_is_checked_unless_the_operator_says_otherwise() {
    let server = api::start(None).await;
    let schema = json!({"type": "object", "properties": {"id": {"type": "integer"}}});
    let response = json!({"description": "", "content": {"application/json": {"schema": schema}}});
    let document =
        json!({"openapi": "3.0.0", "paths": {"/wrong": {"get": {"responses": {"200": response}}}}})
            .to_string();
    let mut strict = Session::start(&document, json!({"server": format!("http://{server}")})).await;
    assert_eq!(strict.thrown("api.get_wrong()").await["name"], json!("InvalidOutput"));
    let mut loose =
        Session::start(&document, json!({"server": format!("http://{server}"), "outputs": false})).await;
    assert_eq!(loose.value("await api.get_wrong()").await, json!({"id": "not a number"}));
}
