/** Two engines of this thread that share a room over a link, as two workers of a process do. */
import { Impairment, type ImpairmentOptions } from "../../../src/kernel/net/impairment.ts";
import { RelayLinks } from "../../../src/nodes/relay-links.ts";
import { workerLinks } from "../../../src/nodes/worker-links.ts";
import type { RelayCalls } from "../../../src/protocol/media/relay.ts";
import type { MediaEvent, MediaNode, MediaRequest, RelayEvent } from "../../../src/protocol/media-node.ts";
import { type PeerOptions, RtcPeer } from "../../../src/rtc-client/peer.ts";
import { Engine } from "../../../src/sfu/engine.ts";
import type { FastPath } from "../../../src/sfu/fast-path/fast-path.ts";
import type { Impair } from "../../../src/sfu/transport/udp.ts";
import { createCertificate, type DtlsCertificate } from "../../../src/sfu/werift/werift-hooks.ts";
import type { WorkerCall, WorkerMethod, WorkerRequest, WorkerResponse } from "../../../src/sfu/worker-protocol.ts";
import { ALL } from "../room-of-peers.ts";

export class Site {
  readonly address = "127.0.0.1";
  readonly events: MediaEvent[] = [];
  onRelay: (event: RelayEvent) => void = () => {};
  #engine: Engine | null = null;
  readonly #peers: RtcPeer[] = [];
  readonly #impairments = new Map<number, Impairment<() => void>>();
  /** Towards the port of the other engine only. */
  impaired: { port: number; options: ImpairmentOptions } = { port: -1, options: {} };

  constructor(
    readonly index: number,
    readonly certificate: DtlsCertificate,
    readonly clock: { aheadMs: number },
  ) {}

  async start(path: FastPath): Promise<this> {
    this.#engine = await Engine.start(
      {
        hostname: this.address,
        port: 0,
        announce: [this.address],
        tcp: false,
        srtpProfiles: ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"],
      },
      {
        emit: (event) => {
          this.events.push(event);
        },
        relay: (event) => this.onRelay(event),
        onFault: (error) => {
          throw error;
        },
      },
      { path, impairOut: this.#impair, now: () => performance.timeOrigin + performance.now() + this.clock.aheadMs },
    );
    return this;
  }

  get engine(): Engine {
    if (!this.#engine) throw new Error("not started");
    return this.#engine;
  }

  get port(): number {
    return this.engine.port;
  }

  readonly #impair: Impair = (data, port, deliver) => {
    if (port !== this.impaired.port) return deliver(data);
    let queue = this.#impairments.get(port);
    if (!queue) {
      queue = new Impairment(7, this.impaired.options);
      this.#impairments.set(port, queue);
    }
    const copy = data.slice();
    queue.push(() => deliver(copy), data.length, performance.now());
    for (const due of queue.takeDue(performance.now())) due();
  };

  async call<M extends WorkerMethod>(method: M, request: WorkerRequest<M>): Promise<WorkerResponse<M>> {
    return this.engine.call(
      structuredClone({ type: "call", id: 0, method, request } as WorkerCall),
    ) as WorkerResponse<M>;
  }

  relay<M extends keyof RelayCalls>(method: M, request: RelayCalls[M]): Promise<unknown> {
    return this.call(method, request as WorkerRequest<M>);
  }

  async join(
    roomId: string,
    identity: string,
    sections: PeerOptions["sections"],
    { data, ...options }: Partial<PeerOptions> & Pick<MediaRequest<"negotiate">, "data"> = {},
  ) {
    const participantId = identity;
    await this.call("addParticipant", { roomId, participantId, identity, permissions: ALL });
    const node = {
      negotiate: (request: MediaRequest<"negotiate">) => this.call("negotiate", { ...request, ...(data && { data }) }),
      onEvent: () => () => {},
    } as unknown as MediaNode;
    const peer = await RtcPeer.create({
      node,
      roomId,
      participantId,
      sections,
      certificate: this.certificate,
      ...options,
    });
    this.#peers.push(peer);
    return peer;
  }

  close(): void {
    for (const peer of this.#peers) peer.close();
    this.#engine?.close();
  }
}

const placeOf = ({ address, port }: Site) => ({ address, port });

/** Links as between nodes: both ends check the path, and measure what it carries. */
export function nodeLinks(): RelayLinks<Site> {
  const credentials = (name: string) => ({ ufrag: `ufrag-of-${name}`, pwd: `password-of-the-end-${name}` });
  const key = (byte: number) => ({
    profile: "AEAD_AES_128_GCM" as const,
    key: new Uint8Array(16).fill(byte),
    salt: new Uint8Array(12).fill(byte),
  });
  const [forth, back] = [key(1), key(2)];
  return new RelayLinks<Site>({
    open: ({ linkId, ends: [a, b] }) =>
      Promise.all([
        a.call("openLink", {
          linkId,
          peers: [placeOf(b)],
          keys: { incoming: back, outgoing: forth },
          checks: { local: credentials("a"), remote: credentials("b") },
        }),
        b.call("openLink", {
          linkId,
          peers: [placeOf(a)],
          keys: { incoming: forth, outgoing: back },
          checks: { local: credentials("b"), remote: credentials("a") },
        }),
      ]),
  });
}

export class TwoWorkers {
  static async start(path: () => FastPath, links = workerLinks<Site>()): Promise<TwoWorkers> {
    const certificate = await createCertificate();
    const clock = { aheadMs: 0 };
    const site = (index: number) => new Site(index, certificate, clock).start(path());
    return new TwoWorkers(await site(0), await site(1), clock, links);
  }

  private constructor(
    readonly a: Site,
    readonly b: Site,
    /** Both engines are ahead of the true time by this. */
    readonly clock: { aheadMs: number },
    readonly links: RelayLinks<Site>,
  ) {
    for (const site of [a, b]) {
      site.onRelay = (event) => this.links.received(site, event);
    }
  }

  async share(...roomIds: string[]): Promise<void> {
    for (const roomId of roomIds) {
      for (const site of [this.a, this.b]) await site.call("openRoom", { roomId });
      await this.links.share(roomId, this.a, this.b);
    }
  }

  close(): void {
    this.a.close();
    this.b.close();
  }
}

/** The worker of a publisher, the one of its node that has links to other nodes, and another node, which share a room. */
export async function startChain(path: () => FastPath, roomId: string) {
  const certificate = await createCertificate();
  const clock = { aheadMs: 0 };
  const site = (index: number) => new Site(index, certificate, clock).start(path());
  const [first, middle, last] = [await site(0), await site(1), await site(2)];
  const [inside, between] = [workerLinks<Site>(), nodeLinks()];
  for (const one of [first, middle, last]) {
    one.onRelay = (event) => {
      for (const links of [inside, between]) links.received(one, event);
    };
    await one.call("openRoom", { roomId });
  }
  await inside.share(roomId, first, middle);
  await between.share(roomId, middle, last);
  return {
    first,
    middle,
    last,
    clock,
    close() {
      for (const one of [first, middle, last]) one.close();
    },
  };
}

/** Waits for a state that packets bring about. */
export async function until<T>(
  check: () => T | null | undefined | false,
  what: string,
  timeoutMs = 20_000,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const value = check();
    if (value) return value;
    if (performance.now() > deadline) throw new Error(`timed out waiting for ${what}`);
    await Bun.sleep(5);
  }
}
