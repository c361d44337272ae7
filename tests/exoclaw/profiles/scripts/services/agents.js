// Repeats the message, and says how many messages its history has.
await exoclaw.agent({
  id: 'default',
  onChat: async ({ content, session, history, emit }) => {
    await emit('text', `${session.key}: `);
    await emit('text', content);
    return ` (${history.length})`;
  },
});

await exoclaw.agent({
  id: 'tools',
  onChat: ({ emit }) => {
    // Not awaited, but sent in order.
    emit('tool_use', { id: 't1', name: 'look', input: { at: 1 } });
    emit('tool_result', { tool_use_id: 't1', content: 'seen', is_error: false });
    emit('text', 'done looking');
    emit('usage', { input_tokens: 600, output_tokens: 400 });
  },
});

await exoclaw.agent({
  id: 'broken',
  onChat: async ({ emit }) => {
    await emit('text', 'so far');
    throw new RangeError('out of range');
  },
});

// Keeps `emit` of its first chat, and calls it in the second.
let firstEmit;
await exoclaw.agent({
  id: 'late',
  onChat: ({ emit }) => {
    if (firstEmit) return firstEmit('text', 'too late').then(() => 'it was sent', (error) => error.message);
    firstEmit = emit;
    return 'over';
  },
});
