/** A company's proxy that allows only CONNECT to port 443, in a process of its own. */
import { connect, createServer, type Socket } from "node:net";

const [, , hostname = "0.0.0.0", port = "3128"] = process.argv;

createServer((client: Socket) => {
  client.on("error", () => {});
  client.once("data", (data: Buffer) => {
    const target = /^CONNECT ([^\s:]+):443 HTTP\/1\.[01]\r\n/.exec(data.toString("latin1"))?.[1];
    if (target === undefined) {
      client.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
      return;
    }
    const server = connect(443, target, () => {
      client.write("HTTP/1.1 200 Connection established\r\n\r\n");
      client.pipe(server).pipe(client);
    });
    server.on("error", () => client.destroy());
    client.on("close", () => server.destroy());
  });
}).listen(Number(port), hostname, () => console.log("listening"));
