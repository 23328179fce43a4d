#![allow(clippy::all, missing_docs, clippy::unwrap_used, clippy::print_stdout)]
use std::{sync::Arc, time::Instant};
use sudare::{ckks::*, rlwe::*};
fn t<R>(name:&str, n:usize, mut f: impl FnMut()->R){ f(); let mut v=vec![]; for _ in 0..n{ let s=Instant::now(); let r=f(); v.push(s.elapsed().as_secs_f64()*1e3); drop(r);} v.sort_by(f64::total_cmp); println!("{name:20} med {:8.3} min {:8.3}", v[n/2], v[0]); }
fn main(){ let which=std::env::args().nth(1).unwrap_or("15".into());
 let spec = match which.as_str(){ "15"=> Spec::uniform(15, 48.0, 12, 46.8, vec![48.0;5]), "16"=> Spec::uniform(16, 48.0, 24, 45.0, vec![48.0;8]),
  "f5"=>Spec{insecure:true, secret: SecretDistribution::FixedWeight{h:64}, ..Spec::uniform(15,61.0,5,55.0,vec![61.0;6])},
  "f10"=>Spec{insecure:true, secret: SecretDistribution::FixedWeight{h:64}, ..Spec::uniform(15,61.0,10,55.0,vec![61.0;11])},
  _=>Spec{insecure:true, secret: SecretDistribution::FixedWeight{h:64}, ..Spec::uniform(16,61.0,15,55.0,vec![61.0;15])}};
 let s=Instant::now(); let p=Params::new(spec).unwrap(); println!("params {:.3}s logq {:.1} logqp {:.1} sec {:.1} dnum {}", s.elapsed().as_secs_f64(), p.rlwe().log2_q(p.top()), p.rlwe().log2_qp(p.top()), p.rlwe().security_bits(), p.rlwe().digits(p.top()));
 let mut kg=KeyGenerator::new(p.rlwe()).unwrap(); let s=Instant::now(); let sk=kg.secret_key().unwrap(); let pk=Arc::new(kg.public_key(&sk).unwrap()); let top=p.top();
 let req=KeyRequest::new().relinearize(top).rotations(p.log_n(), 1..9, top);
 let ek=Arc::new(kg.evaluation_keys(&sk,&req).unwrap()); println!("keys {:.3}s {} MB", s.elapsed().as_secs_f64(), req.bytes(p.rlwe())/1_000_000);
 let run=||{ let enc=Encoder::new(&p); let e=Encryptor::new(&p,pk.clone()).unwrap(); let ev=Evaluator::new(&p,ek.clone()).unwrap();
 let x:Vec<Complex<f64>>=(0..p.max_slots()).map(|i|Complex{re:(i as f64).sin(),im:(i as f64).cos()}).collect();
 let sc=p.scale_at(top); let pt=enc.encode(&x,top,sc).unwrap(); let a=e.encrypt(&pt).unwrap(); let b=e.encrypt(&pt).unwrap();
 t("encode",11,||enc.encode(&x,top,sc).unwrap()); t("encrypt",11,||e.encrypt(&pt).unwrap()); t("add",21,||ev.add(&a,&b).unwrap()); t("mul_plain",21,||ev.mul_plain(&a,&pt).unwrap()); t("mul_const",21,||ev.mul_const(&a,Complex{re:0.3,im:0.0},sc).unwrap());
 t("mul",11,||ev.mul(&a,&b).unwrap()); t("mul_rescale",11,||ev.mul_rescale(&a,&b).unwrap()); t("rescale",11,||ev.rescale(&a).unwrap()); t("rotate",11,||ev.rotate(&a,1).unwrap());
 t("hoisted8",7,||{let h=ev.hoist(&a).unwrap(); (1..9).map(|k|ev.rotate_hoisted(&h,k).unwrap()).last()}); };
 for n in [1,2]{ println!("threads {n}"); sudare_arith::par::with_threads(n, run).unwrap(); }
 let d=Decryptor::new(&p,sk).unwrap(); let enc=Encoder::new(&p); let e=Encryptor::new(&p,pk.clone()).unwrap(); let pt=enc.encode_real(&[1.0;1000],top,p.scale_at(top)).unwrap(); let a=e.encrypt(&pt).unwrap(); let r=d.decrypt(&a).unwrap(); sudare_arith::par::with_threads(1, ||{ t("decrypt",21,||d.decrypt(&a).unwrap()); t("decode",11,||enc.decode(&r).unwrap());}).unwrap();
}
