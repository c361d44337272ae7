// Says back what it is told, and how much it remembers.
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
    // Not awaited: they are sent in order all the same.
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
    throw new RangeError('out of patience');
  },
});

// Keeps what belongs to its first chat, and tries it in the second.
let kept;
await exoclaw.agent({
  id: 'late',
  onChat: ({ emit }) => {
    if (kept) return kept('text', 'too late').then(() => 'it was sent', (error) => error.message);
    kept = emit;
    return 'over';
  },
});
