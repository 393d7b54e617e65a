import { afterEach, expect, test } from "bun:test";
import { Fleet } from "./fleet-of-processes.ts";
import { until } from "./until.ts";

type ErrorRecord = Record<"category" | "code" | "roomId" | "likelyCause" | "connectionId", string>;

const LONG = 120_000;
let fleet: Fleet | null = null;

afterEach(async () => {
  await fleet?.close();
  fleet = null;
});

test(
  "[4.2] rooms go to the region they name, past a full node to another, and not to a drained one",
  async () => {
    fleet = await Fleet.start();
    await Promise.all([fleet.node("eu1", "eu", "--sfu-capacity", "1"), fleet.node("us1", "us")]);
    const placed = async (region: string) => {
      const member = await fleet?.member(await fleet.room(region), "ada");
      return member?.client.ack?.serverName;
    };
    expect(await placed("eu")).toBe("eu1");
    expect(await placed("us")).toBe("us1");
    expect(["us1", "local"]).toContain((await placed("eu")) ?? "");
    const roomId = await fleet.room("us");
    const ada = await fleet.member(roomId, "ada");
    await fleet.asOperator("POST", "/v1/rtc/servers/us1/drain");
    expect(await placed("us")).toBe("local");
    expect((await fleet.member(roomId, "ben")).client.ack?.serverName).toBe("local");
    expect(await until(() => ada.of("bye")[0])).toMatchObject({ reason: "restart", action: "rejoin" });
    await fleet.asOperator("POST", "/v1/rtc/servers/us1/undrain");
    expect(await placed("us")).toBe("us1");
    const eu1 = await fleet.asOperator("GET", "/v1/rtc/servers/eu1");
    expect(eu1).toMatchObject({ status: "HEALTHY", capacity: 1, publicHost: fleet.lan.machines.eu1.address });
  },
  LONG,
);

test(
  "[11] a node that is killed during a call: everyone is told to rejoin, and the call continues elsewhere",
  async () => {
    fleet = await Fleet.start();
    const eu1 = await fleet.node("eu1", "eu");
    const roomId = await fleet.room("eu");
    const ada = await fleet.member(roomId, "ada");
    const ben = await fleet.member(roomId, "ben");
    expect(ada.client.ack?.serverName).toBe("eu1");
    await ada.publish();
    await ben.watch("ada");
    eu1.child.kill("SIGKILL");
    for (const member of [ada, ben]) {
      const bye = await until(() => member.of("bye")[0]);
      expect(bye).toMatchObject({ reason: "node_lost", action: "rejoin" });
      expect(await until(() => member.client.closeCode ?? undefined)).toBe(4500);
    }
    const lost = await until(async () => {
      const errors = (await fleet?.call("GET", "/v1/errors")) as unknown as ErrorRecord[];
      return errors.length >= 2 && errors;
    });
    expect(lost).toHaveLength(2);
    for (const error of lost) {
      expect(error).toMatchObject({ category: "SFU_ERROR", code: "node_lost", roomId });
      expect(error.likelyCause).toContain("node");
      const record = await fleet.call("GET", `/v1/connections/${error.connectionId}`);
      expect(record).toMatchObject({ state: "FAILED", disconnectReason: "node_lost", serverName: "eu1" });
      expect(record.errors).toMatchObject([{ code: "node_lost" }]);
    }
    const [ada2, ben2] = [await fleet.member(roomId, "ada"), await fleet.member(roomId, "ben")];
    expect(ada2.client.ack).toMatchObject({ serverName: "local", mode: "new" });
    await ada2.publish();
    await ben2.watch("ada");
    // The same name, on another port: it is taken back at once.
    await fleet.node("eu1", "eu");
    expect((await fleet.member(await fleet.room("eu"), "ada")).client.ack?.serverName).toBe("eu1");
  },
  LONG,
);

test(
  "[11] the control plane restarts during a call: media flows, signaling resumes, who stays away has left",
  async () => {
    fleet = await Fleet.start();
    await fleet.node("eu1", "eu");
    const roomId = await fleet.room("eu");
    const ada = await fleet.member(roomId, "ada");
    const ben = await fleet.member(roomId, "ben");
    const cyd = await fleet.member(roomId, "cyd");
    await ada.publish();
    await ben.watch("ada");
    const sessionId = ben.client.ack?.sessionId;
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      await fleet.stopServer(signal);
      await until(() => ben.client.closeCode ?? undefined);
      if (signal === "SIGTERM") expect(ben.of("bye")[0]).toMatchObject({ reason: "restart", action: "resume" });
      // There is no signaling now, so media flows from the node alone.
      await ben.receives();
      const [, ack] = await Promise.all([fleet.startServer(), ben.resume()]);
      expect(ack).toMatchObject({ mode: "resumed", sessionId, serverName: "eu1" });
      expect(ack.participants.map(({ identity }) => identity).sort()).toEqual(["ada", "cyd"]);
      expect(ack.participants.find(({ identity }) => identity === "ada")?.tracks).toHaveLength(1);
      expect(await ada.resume()).toMatchObject({ mode: "resumed" });
      if (signal === "SIGTERM") await cyd.resume();
      await ben.receives();
    }
    const left = await until(() => ben.of("participant.left")[0]);
    expect(left).toMatchObject({ identity: "cyd", reason: "timeout" });
    expect(JSON.stringify(await fleet.call("GET", `/v1/rooms/${roomId}/participants`))).not.toContain("cyd");
    await ben.receives();
  },
  LONG,
);
