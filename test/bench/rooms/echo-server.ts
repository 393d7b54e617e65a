/** Sends every datagram back to where it came from; prints its port. */
const socket = await Bun.udpSocket({
  hostname: process.argv[2] ?? "127.0.0.1",
  port: 0,
  binaryType: "buffer",
  socket: { data: (self, data, port, address) => void self.send(data, port, address) },
});
console.log(socket.port);

export {};
