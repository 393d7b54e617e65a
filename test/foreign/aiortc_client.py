"""An encoder (whip) or a player (whep) made of aiortc alone: one POST, and a line of JSON a second."""

import asyncio
import fractions
import json
import sys
import urllib.request

import av
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack

WIDTH, HEIGHT, RATE = 320, 180, 15
SECTIONS = 2


class Ball(MediaStreamTrack):
    """A picture in which something moves: an encoder has something to do, and a frozen one shows."""

    kind = "video"

    def __init__(self):
        super().__init__()
        self.count = 0

    async def recv(self):
        await asyncio.sleep(1 / RATE)
        luma = bytearray(b"\x40" * (WIDTH * HEIGHT))
        left = (self.count * 4) % (WIDTH - 32)
        for row in range(60, 92):
            luma[row * WIDTH + left : row * WIDTH + left + 32] = b"\xe0" * 32
        frame = av.VideoFrame(WIDTH, HEIGHT, "yuv420p")
        frame.planes[0].update(pad(luma, frame.planes[0]))
        for plane in frame.planes[1:]:
            plane.update(b"\x80" * plane.buffer_size)
        frame.pts = self.count * 90000 // RATE
        frame.time_base = fractions.Fraction(1, 90000)
        self.count += 1
        return frame


def pad(luma, plane):
    """Lines of a plane may be longer than the picture is wide."""
    if plane.line_size == WIDTH:
        return bytes(luma)
    lines = (bytes(luma[row * WIDTH : (row + 1) * WIDTH]) for row in range(HEIGHT))
    return b"".join(line.ljust(plane.line_size, b"\x40") for line in lines)


def post(url, token, sdp):
    headers = {"content-type": "application/sdp", "authorization": f"Bearer {token}"}
    request = urllib.request.Request(url, data=sdp.encode(), headers=headers, method="POST")
    with urllib.request.urlopen(request) as response:
        return response.read().decode()


async def consume(track, counts, key):
    while True:
        await track.recv()
        counts[key] = counts.get(key, 0) + 1


async def main(kind, url, token):
    peer = RTCPeerConnection()
    video, audio = {}, {}
    if kind == "whip":
        peer.addTransceiver(AudioStreamTrack(), direction="sendonly")
        peer.addTransceiver(Ball(), direction="sendonly")
    else:

        @peer.on("track")
        def on_track(track):
            counts = video if track.kind == "video" else audio
            asyncio.ensure_future(consume(track, counts, str(track.id)))

        for _ in range(SECTIONS):
            for media in ("audio", "video"):
                peer.addTransceiver(media, direction="recvonly")
    await peer.setLocalDescription(await peer.createOffer())
    answer = await asyncio.get_event_loop().run_in_executor(None, post, url, token, peer.localDescription.sdp)
    await peer.setRemoteDescription(RTCSessionDescription(answer, "answer"))
    while True:
        await asyncio.sleep(1)
        sent = sum(sender.track.count for sender in peer.getSenders() if isinstance(sender.track, Ball))
        print(json.dumps({"state": peer.connectionState, "video": sorted(video.values()), "audio": sorted(audio.values()), "sent": sent}), flush=True)


asyncio.run(main(*sys.argv[1:4]))
