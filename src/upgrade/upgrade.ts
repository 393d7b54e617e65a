/** The older process of an upgrade: it starts the newer one, hands over to it and keeps its calls until they end. */
import { existsSync } from "node:fs";
import type { HandedOverInputs } from "../gateways/livekit/ingress/ingresses.ts";
import type { Config } from "../kernel/config/index.ts";
import type { LoopbackTransport } from "../kernel/net/loopback-transport.ts";
import { programPath } from "../kernel/own-command.ts";
import { VERSION } from "../kernel/version.ts";
import type { HandedOver, RunningServer } from "../server.ts";
import type { SharedPort } from "../sfu/transport/port-sharing/port-sharing.ts";
import type { ToNewer, ToOlder } from "./messages.ts";
import { readUpgradeNote, removeUpgradeNote, type UpgradeNote, writeUpgradeNote } from "./note.ts";
import { endsWithService, setMainProcess } from "./service-manager.ts";

const CHECKED_WITHIN_MS = 60_000;
/** This time includes migrations. */
const SERVES_WITHIN_MS = 10 * 60_000;
/** For connections that were being opened at the handover, and requests that the newer process answers slowly. */
const FORWARD_MS = 5_000;
const CHECK_EVERY_MS = 500;
/** How long to wait until the files of compositions are completed and uploaded. */
const COMPOSITIONS_END_WITHIN_MS = 60_000;
/** After UPGRADE_DRAIN_MINUTES the newer process moves the remaining rooms one by one, for at most this time. */
const MOVED_WITHIN_MS = 2 * 60_000;
/** If there is no newer process, nobody can join, leave or end the calls, so they are given up after this time. */
const ABANDONED_AFTER_MS = 2 * 60_000;

type Deps = {
  config: Config;
  server: RunningServer;
  /** The command line for starting the binary with the arguments of this process; null means this process's own program. */
  command(binary: string | null): string[];
  /** Called when this process is to exit, usually because its calls have ended. */
  end(reason: string, exitCode: number): void;
};

export type Upgrades = {
  /** Starts an upgrade to the program that the note in the data directory names, or else to the one at this program's path. */
  begin(): void;
};

export function acceptUpgrades({ config, server, command, end }: Deps): Upgrades {
  const { log } = server.runtime;
  let isRunning = false;
  // A process that was killed during an upgrade may have had the id that this one has now.
  const noted = readUpgradeNote(config.DATA_DIR);
  if (noted?.state === "running" && noted.pid === process.pid) removeUpgradeNote(config.DATA_DIR);

  async function upgrade(): Promise<void> {
    if (process.pid === 1)
      throw new Error("Its container ends with the process that runs now: start one of the new image instead.");
    if (endsWithService())
      throw new Error(
        "systemd ends the service together with its process: write its unit again (install.sh --service) and restart it.",
      );
    const requested = readUpgradeNote(config.DATA_DIR);
    const binary = (requested?.state === "requested" ? requested.binary : null) ?? programPath();
    writeUpgradeNote(config.DATA_DIR, { state: "running", pid: process.pid });
    log.info({ binary, version: VERSION }, "upgrade: starting");
    const shared = await shareAll();
    const newer = await startNewer(command(binary), shared).catch(async (error: Error) => {
      await keepAll();
      throw error;
    });
    await Promise.race([server.endCompositions(), Bun.sleep(COMPOSITIONS_END_WITHIN_MS)]);
    const handingOver = server.handOver(shared.ports).then((handedOver) => handOverTo(newer, shared, handedOver));
    handingOver.catch((err: Error) => {
      // This process has given up its data, so its supervisor has to start another one.
      log.fatal({ err }, "upgrade: no process can take over");
      noteOutcome({ state: "failed", reason: err.message });
      setMainProcess(process.pid);
      end("failed", 1);
    });
  }

  /** Writing may fail because the disk is full. */
  function noteOutcome(outcome: UpgradeNote): void {
    try {
      writeUpgradeNote(config.DATA_DIR, outcome);
    } catch (err) {
      log.warn({ err, outcome }, "upgrade: outcome not noted");
      removeUpgradeNote(config.DATA_DIR);
    }
  }

  async function handOverTo(newer: Newer, shared: Shared, handedOver: HandedOver): Promise<void> {
    let failure: string | null = null;
    const { inputs } = handedOver;
    const serving = await newer.release(inputs).catch(async (err: Error) => {
      log.error({ err }, "upgrade: the newer process failed, this version continues");
      try {
        const own = await startServing(command(null), shared, inputs);
        failure = err.message;
        return own;
      } catch (own) {
        // The newer process may have migrated the data before it failed.
        log.error({ err: own }, "upgrade: this version cannot continue, starting the newer one again");
        return startServing(newer.program, shared, inputs);
      }
    });
    handedOver.requests.forwardTo(serving.loopback);
    serves(serving);
    const { pid, version } = serving;
    noteOutcome(failure === null ? { state: "done", pid, version } : { state: "failed", reason: failure });
    await remain(handedOver, serving, shared);
  }

  async function startServing(program: string[], shared: Shared, inputs: HandedOverInputs): Promise<Serving> {
    const newer = await startNewer(program, shared);
    return newer.release(inputs);
  }

  function serves({ pid, version }: Serving): void {
    setMainProcess(pid);
    log.info({ pid, version }, "upgrade: new process took over");
  }

  async function shareAll(): Promise<Shared> {
    const shared = await server.media.node.sharePorts();
    if ("unavailable" in shared) throw new Error(`${shared.unavailable} ${RESTART}`);
    if (server.share(true)) return { httpPort: server.httpPort, tlsPort: server.tlsPort, ports: shared.ports };
    await keepAll();
    throw new Error(`This system lets no other process use the HTTP port. ${RESTART}`);
  }

  async function keepAll(): Promise<void> {
    server.share(false);
    await server.media.node.keepPorts();
  }

  /**
   * Serves the remaining calls until they end. The newer process is a child of this one, so the supervisor does not notice if it
   * ends.
   */
  async function remain({ node, inputs, stopListening }: HandedOver, first: Serving, shared: Shared): Promise<void> {
    const endsAt = performance.now() + config.UPGRADE_DRAIN_MINUTES * 60_000 + MOVED_WITHIN_MS;
    const startedAtMs = performance.now();
    let serving = first;
    let connectedAt = performance.now();
    void Bun.sleep(FORWARD_MS).then(stopListening);
    for (; performance.now() < endsAt; await Bun.sleep(CHECK_EVERY_MS)) {
      if (serving.hasCrashed()) {
        log.error({ pid: serving.pid }, "upgrade: the newer process crashed, starting it again");
        serving = await startServing(serving.program, shared, inputs);
        serves(serving);
      }
      if (node.connected) connectedAt = performance.now();
      else if (performance.now() - connectedAt > ABANDONED_AFTER_MS) return finish("abandoned");
      if (performance.now() - startedAtMs > FORWARD_MS && (await node.isDone())) return finish("done");
    }
    return finish("timeout");
  }

  function finish(reason: string): void {
    log.info({ reason }, "upgrade: the older process ends");
    end(reason, 0);
  }

  return {
    begin() {
      if (isRunning) return;
      isRunning = true;
      upgrade().catch((error: Error) => {
        isRunning = false;
        log.error({ err: error }, "upgrade: failed");
        noteOutcome({ state: "failed", reason: error.message });
      });
    },
  };
}

const RESTART = "Restart the server instead, which ends its calls.";

type Shared = { httpPort: number; tlsPort: number | null; ports: SharedPort[] };

type Newer = {
  program: string[];
  /** Releases the data; resolves when the newer process serves. */
  release(inputs: HandedOverInputs): Promise<Serving>;
};

type Serving = {
  pid: number;
  version: string;
  loopback: LoopbackTransport;
  program: string[];
  hasCrashed(): boolean;
};

function spawn(program: string[], ipc: (message: ToOlder) => void) {
  const [path = ""] = program;
  try {
    return Bun.spawn(program, { stdio: ["ignore", "inherit", "inherit"], serialization: "json", ipc });
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOEXEC") throw new Error(`${path} is not a program for this system.`);
    if (code === "EACCES") throw new Error(`${path} is not executable.`);
    if (code !== "ENOENT") throw new Error(`${path} does not start: ${message}`);
    throw new Error(
      existsSync(path) ? `${path} needs an interpreter or a C library that is missing.` : `there is no ${path}.`,
    );
  }
}

/** Resolves when the process is ready to take over. */
async function startNewer(program: string[], shared: Shared): Promise<Newer> {
  const answers: { [T in ToOlder["type"]]: PromiseWithResolvers<Extract<ToOlder, { type: T }>> } = {
    ready: Promise.withResolvers(),
    serving: Promise.withResolvers(),
    refused: Promise.withResolvers(),
  };
  const child = spawn(program, (message) => answers[message.type].resolve(message as never));
  const send = (message: ToNewer) => child.send(message);
  const failed = Promise.race([
    answers.refused.promise.then(({ reason }) => reason),
    child.exited.then(
      (code) =>
        `the newer process ended with ${child.signalCode ?? code}. The server's log has its output. A program that is not Stoa, or that is too old for upgrades, ends like this.`,
    ),
  ]).then((reason) => {
    throw new Error(reason);
  });
  failed.catch(() => {});
  async function within<T>(answer: Promise<T>, ms: number): Promise<T> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error("the newer process did not answer in time")), ms);
    try {
      return await Promise.race([answer, failed, late.promise]);
    } catch (error) {
      // Whatever went wrong in the newer process, it must not open the data while another process uses it.
      child.kill("SIGKILL");
      await child.exited;
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
  send({ type: "check", ...shared });
  await within(answers.ready.promise, CHECKED_WITHIN_MS);
  return {
    program,
    async release(inputs) {
      send({ type: "released", inputs });
      const { version, loopback } = await within(answers.serving.promise, SERVES_WITHIN_MS);
      child.disconnect();
      child.unref();
      const hasCrashed = () => child.signalCode !== null || (child.exitCode ?? 0) !== 0;
      return { pid: child.pid, version, loopback, program, hasCrashed };
    },
  };
}
