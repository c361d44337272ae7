//! scomp-serve
use scomp::server::Server;
#[tokio::main(flavor = "current_thread")]
async fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:7400").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    let server = Server::builder().build().unwrap();
    server.serve(listener).await.unwrap();
}
