package main

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
)

var token = os.Getenv("ACCESS_TOKEN")

var client = http.Client{Timeout: REPLY_S_MAX * time.Second}

func create() (status int, after, text string) {
	body := strings.NewReader(`NEW_PLANT`)
	request, err := http.NewRequest("POST", "PLANTS_URL", body)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	reply, err := client.Do(request)
	if err != nil {
		return 0, "", err.Error() // no reply
	}
	defer reply.Body.Close()
	bytes, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, "", err.Error()
	}
	return reply.StatusCode, reply.Header.Get("Retry-After"), string(bytes)
}

func main() {
	if token == "" {
		log.Fatal("ACCESS_TOKEN is not set")
	}
	for tries := 0; ; tries++ {
		status, after, text := create()
		if status == 200 {
			fmt.Println(text)
			return
		}
		if !slices.Contains([]int{0, STATUSES}, status) {
			log.Fatal("fix the request: ", text)
		}
		if tries == RETRIES {
			log.Fatal("keep the create, send it later: ", text)
		}
		pause, _ := time.ParseDuration(after + "s") // 0 for a date, or without the header
		pause = max(pause, time.Second<<tries)
		time.Sleep(pause + rand.N(pause))
	}
}
