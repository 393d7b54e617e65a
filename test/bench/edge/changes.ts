/** How much time of the edge thread a change of certificates takes, while packets go through the relay one after another. */
import { certificateRequest, challengeCertificate, newKey } from "../../../src/network/acme/x509.ts";
import { ANNOUNCED, nextData, tlsStage, turnOver } from "../../network/tls/stage.ts";
import { type Measured, percentile } from "../harness/report.ts";

const CHANGES = 100;
const MEDIA = { address: ANNOUNCED, port: 7001 };
const NAME = "rtc.example.com";

export async function measureChanges(): Promise<Measured[]> {
  const stage = await tlsStage();
  const media = await Bun.udpSocket({
    hostname: "127.0.0.1",
    binaryType: "buffer",
    socket: { data: (socket, data, port, address) => void socket.send(data, port, address) },
  });
  const { multiplexer } = stage;
  multiplexer.setPeers([{ announced: MEDIA, reached: { address: "127.0.0.1", port: media.port } }]);
  const { client, socket } = await turnOver(multiplexer.port, "call");
  await client.allocate();
  await client.permit(MEDIA);
  // Made beforehand: in a server this is the main thread's work.
  const [one, other, proof] = [await stage.pem("one"), await stage.pem("other"), await stage.pem("proof")];

  /** The milliseconds of each echo while `work` is running. */
  async function echoesDuring(work: Promise<unknown>): Promise<number[]> {
    const times: number[] = [];
    let isOver = false;
    void work.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      const startedAt = performance.now();
      const back = nextData(client);
      client.send(Buffer.from("packet"), MEDIA);
      await back;
      times.push(performance.now() - startedAt);
    }
    return times;
  }

  async function change(): Promise<void> {
    for (let count = 0; count < CHANGES; count++) {
      await multiplexer.setChallenge(proof);
      (await stage.tls(["acme-tls/1"])).destroy();
      (await stage.tls()).destroy();
      await multiplexer.setChallenge(null);
      multiplexer.setCertificate(count % 2 === 0 ? one : other);
      await Bun.sleep(20);
    }
  }

  try {
    await echoesDuring(Bun.sleep(1_000));
    const quiet = await echoesDuring(Bun.sleep(5_000));
    const changing = await echoesDuring(change());
    const startedAt = performance.now();
    for (let count = 0; count < CHANGES; count++) {
      challengeCertificate(NAME, "proof", Date.now());
      certificateRequest(NAME, newKey());
    }
    const madeMs = (performance.now() - startedAt) / CHANGES;
    const [before, meanwhile] = [percentile(quiet, 0.99), percentile(changing, 0.99)];
    return [
      { what: "a relayed echo, p99, nothing changes", value: before, unit: "ms" },
      { what: "the slowest of them", value: Math.max(...quiet), unit: "ms" },
      { what: `the same while certificates change ${CHANGES} times`, value: meanwhile, unit: "ms" },
      { what: "the slowest of those", value: Math.max(...changing), unit: "ms" },
      { what: "what the changes add, p99", value: meanwhile - before, unit: "ms", goal: { atMost: 10 } },
      { what: "keys, proof and request of a renewal, on the main thread", value: madeMs, unit: "ms" },
    ];
  } finally {
    socket.destroy();
    media.close();
    await stage.close();
  }
}
