//! A cigen provider in Rust with prost, in the manner of the plugins in the wild: it completes the handshake,
//! then expects a PlanRequest and a GenerateRequest in turn until its stdin ends.
//!
//! prost's derive stands in for generated code; only the fields used here are named, and the
//! others are skipped, as protobuf has it.

use prost::Message;
use std::collections::HashMap;
use std::io::{self, Read, Write};

#[derive(Clone, PartialEq, Message)]
struct Hello {
    #[prost(uint32, tag = "1")]
    core_protocol: u32,
    #[prost(string, tag = "2")]
    core_version: String,
    #[prost(map = "string, string", tag = "3")]
    env: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct PluginInfo {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(uint32, tag = "3")]
    protocol: u32,
    #[prost(string, repeated, tag = "4")]
    capabilities: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Schema {
    #[prost(message, repeated, tag = "4")]
    jobs: Vec<Job>,
}

#[derive(Clone, PartialEq, Message)]
struct Job {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, Message)]
struct PlanRequest {
    #[prost(message, optional, tag = "3")]
    schema: Option<Schema>,
}

#[derive(Clone, PartialEq, Message)]
struct PlanResult {
    #[prost(message, repeated, tag = "1")]
    resources: Vec<Resource>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(int32, tag = "2")]
    kind: i32,
}

#[derive(Clone, PartialEq, Message)]
struct GenerateRequest {
    #[prost(string, tag = "1")]
    target: String,
    #[prost(message, repeated, tag = "2")]
    graph: Vec<Resource>,
}

#[derive(Clone, PartialEq, Message)]
struct GenerateResult {
    #[prost(message, repeated, tag = "1")]
    fragments: Vec<Fragment>,
}

#[derive(Clone, PartialEq, Message)]
struct Fragment {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(string, tag = "2")]
    content: String,
    #[prost(int32, tag = "3")]
    strategy: i32,
    #[prost(int32, tag = "4")]
    order: i32,
    #[prost(string, tag = "5")]
    format: String,
}

const JOB: i32 = 1;
const REPLACE: i32 = 1;

fn receive<M: Message + Default>(input: &mut impl Read) -> io::Result<M> {
    let mut length = [0u8; 4];
    input.read_exact(&mut length)?;
    let mut body = vec![0u8; u32::from_be_bytes(length) as usize];
    input.read_exact(&mut body)?;
    M::decode(&body[..]).map_err(io::Error::other)
}

fn send<M: Message>(message: &M, output: &mut impl Write) -> io::Result<()> {
    let body = message.encode_to_vec();
    output.write_all(&(body.len() as u32).to_be_bytes())?;
    output.write_all(&body)?;
    output.flush()
}

fn serve(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let hello: Hello = receive(input)?;
    eprintln!("core {} uses protocol {}", hello.core_version, hello.core_protocol);
    let info = PluginInfo {
        name: "provider/rust".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        protocol: 1,
        capabilities: vec!["provider:rust".into()],
    };
    send(&info, output)?;
    loop {
        let plan: PlanRequest = receive(input)?;
        let jobs = plan.schema.unwrap_or_default().jobs;
        let resources = jobs.into_iter().map(|job| Resource { id: job.id, kind: JOB });
        send(&PlanResult { resources: resources.collect() }, output)?;
        let asked: GenerateRequest = receive(input)?;
        let jobs: String = asked.graph.iter().map(|one| format!("  {}: {{}}\n", one.id)).collect();
        let fragment = Fragment {
            path: format!(".{}/ci.yml", asked.target),
            content: format!("jobs:\n{jobs}"),
            strategy: REPLACE,
            order: 0,
            format: "yaml".into(),
        };
        send(&GenerateResult { fragments: vec![fragment] }, output)?;
    }
}

fn main() {
    match serve(&mut io::stdin().lock(), &mut io::stdout().lock()) {
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            eprintln!("{error}");
            std::process::exit(1);
        }
        _ => {} // our stdin has ended: the host is done with us
    }
}
