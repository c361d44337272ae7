// The conformance suite: every transcript against a server, each with what came of it.

import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { Player } from './player.js';
import { parse, settingsFile, settingsOf } from './script.js';
import type { Step } from './script.js';

export interface SuiteOptions {
  url: string;
  /** The folder of the transcripts. */
  folder: string;
  token?: string | undefined;
  /** Plays only the transcripts whose names begin so. */
  only?: string | undefined;
  answerWaitMs?: number;
  /** Whether handlers of the server can call bindings of the client (`relay`): transcripts of that are skipped otherwise. */
  relay?: boolean | undefined;
}

export interface Outcome {
  name: string;
  result: 'passed' | 'failed' | 'skipped';
  /** Why it failed, with the line, or why it was skipped. */
  reason?: string;
}

/** Names of all transcripts, in order. */
export function transcriptsIn(folder: string): string[] {
  const all = readdirSync(folder, { encoding: 'utf8', recursive: true });
  return all.filter((name) => name.endsWith('.txt')).sort();
}

/** Reads a transcript. A server may have any name. */
export function readTranscript(folder: string, name: string): Step[] {
  return parse(readFileSync(join(folder, name), 'utf8').replaceAll('"orders-scomp"', '"*"'));
}

/** Plays the transcripts one after the other. */
export async function* runSuite(options: SuiteOptions): AsyncGenerator<Outcome> {
  const { url, folder, token, only = '', answerWaitMs, relay = false } = options;
  for (const name of transcriptsIn(folder)) {
    if (!name.startsWith(only)) continue;
    const steps = readTranscript(folder, name);
    const reason = reasonToSkip(steps, relay);
    if (reason !== undefined) {
      yield { name, result: 'skipped', reason };
      continue;
    }
    try {
      await new Player(url, steps, { token, ...(answerWaitMs === undefined ? {} : { answerWaitMs }) }).play();
      yield { name, result: 'passed' };
    } catch (error) {
      yield { name, result: 'failed', reason: (error as Error).message };
    }
  }
}

function reasonToSkip(steps: Step[], relay: boolean): string | undefined {
  const settings = settingsFile(settingsOf(steps));
  if (settings !== '') return `needs a server with ${settings.trim().replaceAll('\n', ' ')}`;
  const needsRelay = steps.some(({ rest }) => rest.includes('relay'));
  return needsRelay && !relay ? 'needs the binding relay (--relay)' : undefined;
}
