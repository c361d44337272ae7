//! The orders of the worked example in the protocol's documentation: the smallest complete package.

use serde::Serialize;

use super::{PackageContext, PackageInstance};
use crate::package::Package;

#[derive(Serialize, schemars::JsonSchema)]
struct Order {
    id: &'static str,
    customer: &'static str,
    total: f64,
    items: &'static [Item],
}

#[derive(Serialize, schemars::JsonSchema)]
struct Item {
    sku: &'static str,
    quantity: u32,
    price: f64,
}

/// Opens the package.
pub async fn open(context: PackageContext) -> Result<PackageInstance, String> {
    Ok(context.bind_package(package())?.into())
}

fn package() -> Package {
    Package::new("orders").add::<get_order>()
}

/// Fetch an order by ID. Returns null if not found.
#[scomp::binding(effects = ["read"])]
fn get_order(id: String) -> Option<Order> {
    match id.as_str() {
        "o_001" => Some(Order {
            id: "o_001",
            customer: "Ada",
            total: 142.5,
            items: &[
                Item { sku: "lamp", quantity: 1, price: 120.0 },
                Item { sku: "bulb", quantity: 3, price: 7.5 },
            ],
        }),
        "o_002" => Some(Order {
            id: "o_002",
            customer: "Grace",
            total: 38.0,
            items: &[Item { sku: "cable", quantity: 2, price: 19.0 }],
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{handlers_of, run};
    use super::*;
    use serde_json::{Value, json};

    #[tokio::test]
    async fn get_order_returns_known_order_and_null_otherwise() {
        let orders = handlers_of(package());
        let order = run(&orders, "getOrder", json!({"id": "o_001"}), "ada").await.unwrap();
        assert_eq!(order["total"], json!(142.5));
        let more = run(&orders, "getOrder", json!({"id": "o_002", "unknown": 1}), "ada").await.unwrap();
        assert_eq!(more["customer"], "Grace");
        assert_eq!(run(&orders, "getOrder", json!({"id": "o_999"}), "ada").await.unwrap(), Value::Null);
    }

    #[test]
    fn declaration_matches_the_worked_example() {
        let file: Value = serde_json::from_str(include_str!("declaration.json")).unwrap();
        let mut declared = file["bindings"][0].clone();
        let definitions = declared["output"].as_object_mut().unwrap().remove("$defs").unwrap();
        assert!(definitions["Order"].is_object());
        let expected = json!({
            "name": "getOrder",
            "description": "Fetch an order by ID. Returns null if not found.",
            "input": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
            "output": {"oneOf": [{"$ref": "#/$defs/Order"}, {"type": "null"}]},
            "effects": ["read"],
        });
        assert_eq!(declared, expected);
    }
}
