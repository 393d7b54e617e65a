import { until } from "./page-media.ts";
import type { RtcPage } from "./rtc-page.ts";

/** Connects by WHIP or WHEP: gathers candidates, POSTs the offer and applies the answer. Returns the resource's URL. */
export async function whip(page: RtcPage, url: string, token: string, kind: "whip" | "whep"): Promise<string> {
  if (kind === "whip") await page.publish();
  else page.receive(1);
  await page.pc.setLocalDescription(await page.pc.createOffer());
  await until(() => (page.pc.iceGatheringState === "complete" ? true : undefined), "candidates");
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/sdp" };
  const response = await fetch(url, { method: "POST", headers, body: page.pc.localDescription?.sdp });
  if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`);
  await page.pc.setRemoteDescription({ type: "answer", sdp: await response.text() });
  return new URL(String(response.headers.get("location")), url).href;
}
