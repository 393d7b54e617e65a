import { expect, test } from "bun:test";
import { createSctpClient } from "../../src/sfu/werift/werift-hooks.ts";
import { RoomOfPeers } from "../sfu/room-of-peers.ts";

test("a peer handles data only when it has read everything that arrived", async () => {
  const room = await RoomOfPeers.open();
  let isReading = false;
  const handledWhileReading: boolean[] = [];
  const peer = await room.join("peer", {
    sections: [{ kind: "audio", direction: "recvonly" }],
    openSocket: (onData) =>
      Bun.udpSocket({
        hostname: "127.0.0.1",
        binaryType: "buffer",
        socket: {
          data: (_socket, datagram) => {
            isReading = true;
            // Runs when the socket is empty.
            setImmediate(() => {
              isReading = false;
            });
            onData(datagram);
          },
        },
      }),
    onData: (packet) => {
      handledWhileReading.push(isReading);
      sctp.deliver(packet);
    },
  });
  await peer.connect([], []);
  const sctp = createSctpClient(65_536, (packet) => peer.sendData(packet));
  const channel = sctp.open("reliable", {});
  await room.until(() => channel.readyState === "open" || undefined, "the data channel");
  expect(handledWhileReading.length).toBeGreaterThan(2);
  expect(handledWhileReading).not.toContain(true);
  sctp.close();
  await room.close();
});
