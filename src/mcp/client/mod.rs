//! Every MCP server a package: its tools are bindings, over stdin and stdout of a process or over HTTP.
//!
//! `config` is what the operator says. `list`, `schemas`, `tools` and `content` are pure: they map what a server says to
//! declarations and values. `stdio`, `http` and `routes` carry messages within limits; `connection` is one handshake and
//! its requests; `supervisor` keeps a connection up; `package` and `call` are what the handlers run.

mod call;
mod config;
mod connection;
mod content;
mod extras;
mod handler;
mod http;
mod list;
mod package;
mod routes;
mod schemas;
mod stdio;
mod supervisor;
mod tools;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::package::{PackageContext, PackageDef, PackageInstance};
use crate::peering::Background;
use connection::{Launch, START_TIME_MAX};
use package::McpPackage;
use supervisor::Supervisor;

/// The package behind `"mcp"` in a declaration file.
pub(crate) const PACKAGE: PackageDef = PackageDef {
    name: "mcp",
    declaration: include_str!("declaration.json"),
    open: |context| Box::pin(open(context)),
};

/// Connects to the server and makes bindings of what it offers.
async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    let PackageContext { package: name, config, mut secrets, folder, bindings: publisher, .. } = context;
    let (address, rules) = config::read(&config, &mut secrets)?;
    let launch = Launch { package: name.clone(), address, folder, secrets: secrets.clone() };
    let running = launch.connect().await?;
    let (current_tx, current_rx) = watch::channel(None);
    let package = McpPackage::new(name, rules, secrets, current_rx);
    let connection = Arc::clone(&running.connection);
    let offered = match timeout(START_TIME_MAX, package.offered(&connection)).await {
        Ok(offered) => offered,
        Err(_) => Err(format!("the server did not list its tools within {} s", START_TIME_MAX.as_secs())),
    };
    let (bindings, unmapped) = match offered {
        Ok(offered) => offered,
        Err(error) => {
            running.stop(&package.name).await;
            return Err(error);
        }
    };
    let supervisor = Supervisor { launch, package: Arc::downgrade(&package), publisher, current_tx };
    let (end, ended) = (package.end.clone(), package.ended.clone().drop_guard());
    tokio::spawn(async move {
        // Dropped with the task, also where its runtime ends before it does.
        let _ended = ended;
        supervisor.run(running, end).await;
    });
    let stop = Background::new(move |host| async move {
        host.stop.cancelled().await;
        package.stop().await;
    });
    Ok(PackageInstance { bindings, background: vec![stop], unmapped, ..PackageInstance::default() })
}
