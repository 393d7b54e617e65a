// An encoder (whip) or a player (whep) made of Pion: one POST, and a line of JSON a second.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"
	"github.com/pion/rtp/codecs"
	"github.com/pion/webrtc/v3"
	"github.com/pion/webrtc/v3/pkg/media/samplebuilder"
	"golang.org/x/image/vp8"
)

const (
	sections = 4
	// Packets that a frame may wait for one that is sent again.
	maxLate      = 200
	keyframeTime = 3 * time.Second
)

// What is told: frames that came whole by track, and pictures that were decoded of them.
type counts struct {
	sync.Mutex
	State    string `json:"state"`
	Video    []int  `json:"video"`
	Audio    []int  `json:"audio"`
	Pictures []int  `json:"pictures"`
	Sent     int    `json:"sent"`
}

func (c *counts) add(field *[]int) int {
	c.Lock()
	defer c.Unlock()
	*field = append(*field, 0)
	return len(*field) - 1
}

func (c *counts) count(field []int, index int) {
	c.Lock()
	defer c.Unlock()
	field[index]++
}

func main() {
	kind, url, token := os.Args[1], os.Args[2], os.Args[3]
	peer, err := webrtc.NewPeerConnection(webrtc.Configuration{})
	must(err)
	told := &counts{Video: []int{}, Audio: []int{}, Pictures: []int{}}
	if kind == "whip" {
		publish(peer, told, os.Args[4])
	} else {
		watch(peer, told)
	}
	join(peer, url, token)
	for range time.Tick(time.Second) {
		told.Lock()
		told.State = peer.ConnectionState().String()
		line, err := json.Marshal(told)
		told.Unlock()
		must(err)
		fmt.Println(string(line))
	}
}

func join(peer *webrtc.PeerConnection, url, token string) {
	offer, err := peer.CreateOffer(nil)
	must(err)
	gathered := webrtc.GatheringCompletePromise(peer)
	must(peer.SetLocalDescription(offer))
	<-gathered
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(peer.LocalDescription().SDP))
	must(err)
	request.Header.Set("content-type", "application/sdp")
	request.Header.Set("authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	must(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must(err)
	if response.StatusCode != http.StatusCreated {
		log.Fatalf("%s: %s", response.Status, answer)
	}
	must(peer.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: string(answer)}))
}

// Pion has no encoder: packets come from the output of a program, each after its length.
func publish(peer *webrtc.PeerConnection, told *counts, encoder string) {
	track, err := webrtc.NewTrackLocalStaticRTP(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8}, "video", "pion")
	must(err)
	direction := webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}
	transceiver, err := peer.AddTransceiverFromTrack(track, direction)
	must(err)
	go readControl(transceiver.Sender())
	command := exec.Command("sh", "-c", "exec "+encoder)
	output, err := command.StdoutPipe()
	must(err)
	must(command.Start())
	go func() {
		must(forward(bufio.NewReader(output), track, told))
	}()
}

func forward(packets io.Reader, track *webrtc.TrackLocalStaticRTP, told *counts) error {
	for {
		var length uint16
		if err := binary.Read(packets, binary.BigEndian, &length); err != nil {
			return err
		}
		data := make([]byte, length)
		if _, err := io.ReadFull(packets, data); err != nil {
			return err
		}
		packet := &rtp.Packet{}
		if err := packet.Unmarshal(data); err != nil {
			return err
		}
		// Nobody may be there yet.
		if err := track.WriteRTP(packet); err != nil && err != io.ErrClosedPipe {
			return err
		}
		if packet.Marker {
			told.Lock()
			told.Sent++
			told.Unlock()
		}
	}
}

// What is sent again is sent by those who read what is asked for.
func readControl(sender *webrtc.RTPSender) {
	for {
		if _, _, err := sender.ReadRTCP(); err != nil {
			return
		}
	}
}

func watch(peer *webrtc.PeerConnection, told *counts) {
	peer.OnTrack(func(track *webrtc.TrackRemote, _ *webrtc.RTPReceiver) {
		if track.Kind() == webrtc.RTPCodecTypeAudio {
			listen(track, told)
		} else {
			go askForKeyframes(peer, track)
			look(track, told)
		}
	})
	direction := webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionRecvonly}
	for i := 0; i < sections; i++ {
		for _, kind := range []webrtc.RTPCodecType{webrtc.RTPCodecTypeAudio, webrtc.RTPCodecTypeVideo} {
			_, err := peer.AddTransceiverFromKind(kind, direction)
			must(err)
		}
	}
}

func listen(track *webrtc.TrackRemote, told *counts) {
	index := told.add(&told.Audio)
	for {
		if _, _, err := track.ReadRTP(); err != nil {
			return
		}
		told.count(told.Audio, index)
	}
}

func look(track *webrtc.TrackRemote, told *counts) {
	isVP8 := track.Codec().MimeType == webrtc.MimeTypeVP8
	var packets rtp.Depacketizer = &codecs.H264Packet{}
	if isVP8 {
		packets = &codecs.VP8Packet{}
	}
	index := told.add(&told.Video)
	decoded := told.add(&told.Pictures)
	builder := samplebuilder.New(maxLate, packets, track.Codec().ClockRate)
	for {
		packet, _, err := track.ReadRTP()
		if err != nil {
			return
		}
		builder.Push(packet)
		for sample := builder.Pop(); sample != nil; sample = builder.Pop() {
			told.count(told.Video, index)
			if isVP8 && decodes(sample.Data) {
				told.count(told.Pictures, decoded)
			}
		}
	}
}

// Go's own decoder knows keyframes only.
func decodes(frame []byte) bool {
	if len(frame) == 0 || frame[0]&1 != 0 {
		return false
	}
	decoder := vp8.NewDecoder()
	decoder.Init(bytes.NewReader(frame), len(frame))
	if _, err := decoder.DecodeFrameHeader(); err != nil {
		return false
	}
	_, err := decoder.DecodeFrame()
	return err == nil
}

func askForKeyframes(peer *webrtc.PeerConnection, track *webrtc.TrackRemote) {
	for range time.Tick(keyframeTime) {
		wanted := []rtcp.Packet{&rtcp.PictureLossIndication{MediaSSRC: uint32(track.SSRC())}}
		if err := peer.WriteRTCP(wanted); err != nil {
			return
		}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
