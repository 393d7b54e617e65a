/** `relay.ts ADDRESS PORT`: what comes in at the address goes to the port on loopback. Prints a line once it listens. */
import { connect, createServer } from "node:net";

const [address = "", port = ""] = process.argv.slice(2);
const server = createServer((client) => {
  const inside = connect(Number(port), "127.0.0.1");
  client.pipe(inside).pipe(client);
  for (const socket of [client, inside]) socket.on("error", () => client.destroy());
});
// Firefox refuses a request that names another port than its own.
server.listen(Number(port), address, () => console.log(port));
