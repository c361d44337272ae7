// A peer that vanished leaves a socket that looks alive: pings it, and abandons it if no answer comes.

import type { Connection } from './connection.js';

/** How long a connection may be idle before a ping is sent, and then how long the answer may take. */
export const HEARTBEAT_MS_DEFAULT = 30_000;

/** Watches a connection until the function that it returns is called. */
export function startHeartbeat(connection: Connection, everyMs: number): () => void {
  let pinged = false;
  const timer = setInterval(() => {
    if (connection.heard) pinged = false;
    else if (pinged) return connection.abandon(1006, 'ping timed out');
    else {
      pinged = true;
      connection.peer.control('session.info', {}).catch(() => undefined);
    }
    connection.heard = false;
  }, everyMs);
  (timer as { unref?: () => void }).unref?.();
  return () => clearInterval(timer);
}
