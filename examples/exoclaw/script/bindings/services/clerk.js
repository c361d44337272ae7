// An agent without a model: looks up the order that a message names, and says where in the conversation we are.

await exoclaw.agent({
  id: "clerk",
  onChat: async ({ content, history, emit }) => {
    const id = content.match(/o_\d+/)?.[0];
    if (!id) return "Which order?";
    await emit("tool_use", { id: "look-1", name: "getOrder", input: { id } });
    const order = await getOrder({ id });
    await emit("tool_result", { tool_use_id: "look-1", content: JSON.stringify(order), is_error: false });
    await emit("text", `Order ${id}`);
    return order ? ` is ${order.total} (turn ${history.length / 2 + 1}).` : " is not there.";
  },
});
