# What the emulated machine boots, made in the root that it will have, with the kernel's version: /boot/vmlinux, the kernel
# without what unpacks it, which the emulator starts by itself; and /boot/initrd, a shell, and the modules that its disk takes.
set -eu
version=$1 packed=/boot/vmlinuz-$1
# The header of a bzImage: sectors of what runs first; where behind that the packed kernel begins, and how long it is, with
# its length once more behind it.
number() { od --address-radix=n --format="u$3" --skip-bytes="$2" --read-bytes="$3" "$1" | tr -d ' '; }
begins=$((($(number "$packed" 497 1) + 1) * 512 + $(number "$packed" 584 4)))
tail --bytes=+$((begins + 1)) "$packed" | head --bytes=$(($(number "$packed" 588 4) - 4)) | zstd -dcf > /boot/vmlinux

folder=$(mktemp -d)
mkdir "$folder"/{bin,dev,proc,root}
cp "$(command -v busybox)" "$folder/bin/busybox"
for module in virtio_pci virtio_blk ext4; do modprobe --set-version "$version" --show-depends "$module"; done |
    awk '$1 == "insmod" && !seen[$2]++ {print $2}' > "$folder/order"
while read -r path; do
    name=$(basename "$path" | sed 's/\.ko.*/.ko/')
    case $path in *.xz) xz -dc "$path" ;; *.zst) zstd -dc "$path" ;; *) cat "$path" ;; esac > "$folder/$name"
    echo "$name"
done < "$folder/order" > "$folder/modules"
cat > "$folder/init" <<'INIT'
#!/bin/busybox sh
busybox mount -t devtmpfs dev /dev
while read -r module; do busybox insmod "/$module"; done < /modules
until busybox mount -t ext4 -o ro /dev/vda /root; do busybox sleep 0.1; done
busybox mount -o move /dev /root/dev
exec busybox switch_root /root /usr/sbin/lab-init
INIT
chmod +x "$folder/init"
(cd "$folder" && find . | busybox cpio -o -H newc) > /boot/initrd
rm -r "$folder"
