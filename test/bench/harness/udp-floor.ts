/** The floor: the same datagrams to the same number of sockets, made beforehand and only sent. Prints CPU-µs per packet. */
const [count = 100, perSecond = 250, seconds = 4, bytes = 1_216] = process.argv.slice(2).map(Number);

const receivers = await Promise.all(
  Array.from({ length: count }, () => Bun.udpSocket({ hostname: "127.0.0.1", socket: { data: () => {} } })),
);
const sender = Bun.spawn(
  [
    process.execPath,
    `${import.meta.dir}/udp-floor-sender.ts`,
    String(perSecond),
    String(seconds),
    String(bytes),
    ...receivers.map((r) => String(r.port)),
  ],
  {
    stdout: "inherit",
  },
);
await sender.exited;
process.exit(0);
